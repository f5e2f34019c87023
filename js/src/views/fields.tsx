import type { JSX, TargetedKeyboardEvent } from "preact";
import { useView } from "./view";

interface RowProps {
  label: string;
  /** What it means, to whom it is not plain. */
  title?: string;
  children: (id: string) => JSX.Element;
}

export function Row({ label, title, children }: RowProps) {
  const id = `${useView().id}-${label.replace(" ", "-")}`;
  return (
    <>
      <label for={id} title={title}>
        {label}
      </label>
      {children(id)}
    </>
  );
}

interface NumberProps {
  id: string;
  value: number | null;
  unit: string;
  placeholder: string;
  least: number;
  most: number;
  step?: number | "any";
  required?: boolean;
  onSet: (value: number | null) => void;
}

/** Inside JupyterLab's notebooks no Enter submits a form or commits a field, so the key itself is listened to. */
export function onEnter(act: (field: HTMLInputElement) => void) {
  return (event: TargetedKeyboardEvent<HTMLInputElement>) => {
    // an input method takes Enter to end a word
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    act(event.currentTarget);
  };
}

/** And comes back, so that what is typed next is compared with what was entered. */
function leave(field: HTMLInputElement): void {
  field.blur();
  field.focus();
}

/** Takes effect when it is left, or with Enter; empty is none. */
export function NumberField({ id, value, unit, placeholder, onSet, ...limits }: NumberProps) {
  const commit = (field: HTMLInputElement) => {
    const entered = field.value === "" ? null : Number(field.value);
    if (!field.reportValidity()) field.value = value === null ? "" : String(value);
    else if (entered !== value) onSet(entered);
  };
  return (
    <span class="field">
      <input
        id={id}
        type="number"
        min={limits.least}
        max={limits.most}
        step={limits.step ?? "any"}
        required={limits.required ?? false}
        placeholder={placeholder}
        value={value ?? ""}
        onKeyDown={onEnter(leave)}
        onChange={(event) => commit(event.currentTarget)}
      />
      <span class="dim">{unit}</span>
    </span>
  );
}

export function Check({
  label,
  checked,
  onSet,
}: {
  label: string;
  checked: boolean;
  onSet: (checked: boolean) => void;
}) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={(event) => onSet(event.currentTarget.checked)} />
      {label}
    </label>
  );
}
