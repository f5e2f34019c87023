import type { InitializeContext, RenderContext } from "./afm";
import { Panel } from "./panel";
import { show } from "./views/root";

// A function, because a host calls it once per model: the panel is what its views have in common. The model
// that a view gets cannot say which panel it belongs to, hosts wrap it anew for each.
export default () => {
  let panel: Panel;
  return {
    initialize({ model, signal }: InitializeContext): void {
      panel = new Panel(model, signal);
    },
    render({ el, signal }: RenderContext): void {
      show(panel, el, signal);
    },
  };
};
