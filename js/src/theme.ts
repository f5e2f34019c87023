/** Calls `changed` when the host may have changed its colours; JupyterLab and VS Code say so on the body. */
export function onThemeChange(changed: () => void, ended: AbortSignal): void {
  const observer = new MutationObserver(changed);
  const attributeFilter = [
    "class",
    "style",
    "theme",
    "data-jp-theme-name",
    "data-jp-theme-light",
    "data-theme",
  ];
  for (const element of [document.body, document.documentElement]) {
    observer.observe(element, { attributeFilter });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed, { signal: ended });
  matchMedia("(forced-colors: active)").addEventListener("change", changed, { signal: ended });
  ended.addEventListener("abort", () => observer.disconnect());
}

/** Whether `root` has a dark background. Asked of the colour itself, so that every theme of every host has
 * an answer. */
export function isDark(root: Element): boolean {
  const [red = 255, green = 255, blue = 255] =
    getComputedStyle(root)
      .backgroundColor.match(/[\d.]+/g)
      ?.map(Number) ?? [];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 128;
}

/** The value of a custom property at `element`, for a canvas, which knows no variables. */
export function colour(element: Element, name: string): string {
  return getComputedStyle(element).getPropertyValue(name).trim() || "#888";
}
