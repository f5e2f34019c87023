import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { keyOf } from "../connection";
import type { Ack } from "../contract";
import { useView } from "./view";
import { Words } from "./words";

interface CommandProps {
  command: string;
  args?: Record<string, unknown>;
  kind?: "primary" | "plain";
  /** For a moment, or for want of something: the reason stands beside it. */
  inert?: boolean;
  /** The id of the element with that reason. */
  why?: string | undefined;
  label?: string;
  onAck?: (ack: Ack) => void;
  children: ComponentChildren;
}

/** A button that sends one command, and takes no further click until the kernel has answered. */
export function CommandButton({
  command,
  args = {},
  kind = "plain",
  inert = false,
  why,
  label,
  onAck,
  children,
}: CommandProps) {
  const { connection } = useView().panel;
  const phase = connection.progress.value.get(keyOf(command, args))?.phase;
  const disabled = inert || phase === "sent" || phase === "busy";
  const click = async () => {
    const ack = await connection.run(command, args);
    if (ack) onAck?.(ack);
  };
  // not `disabled`, which would take the focus away from a person who uses the keyboard
  return (
    <button
      type="button"
      class={kind}
      aria-label={phase === "busy" ? undefined : label}
      aria-disabled={disabled}
      aria-describedby={why}
      onClick={() => disabled || void click()}
    >
      {phase === "busy" ? "Kernel busy…" : children}
    </button>
  );
}

interface ConfirmProps extends CommandProps {
  question: string;
  yes: string;
  no: string;
}

/** A button whose command must be confirmed, in its place. */
export function ConfirmButton({ question, yes, no, ...button }: ConfirmProps) {
  const open = useSignal(false);
  const back = useRef<HTMLButtonElement>(null);
  const trigger = useRef<HTMLButtonElement>(null);
  const wasOpen = useRef(false);
  useLayoutEffect(() => {
    // the focus follows: first to the harmless answer, then to where it came from
    if (open.value) back.current?.focus();
    else if (wasOpen.current) trigger.current?.focus();
    wasOpen.current = open.value;
  }, [open.value]);
  if (!open.value) {
    return (
      <button
        ref={trigger}
        type="button"
        class="plain"
        aria-label={button.label}
        onClick={() => (open.value = true)}
      >
        {button.children}
      </button>
    );
  }
  return (
    <span
      class="confirm"
      role="group"
      aria-label={question}
      onKeyDown={(event) => event.key === "Escape" && (open.value = false)}
    >
      <span>{question}</span>
      <CommandButton
        command={button.command}
        args={button.args ?? {}}
        kind="primary"
        onAck={(ack) => {
          open.value = !ack.ok;
          button.onAck?.(ack);
        }}
      >
        {yes}
      </CommandButton>
      <button ref={back} type="button" class="plain" onClick={() => (open.value = false)}>
        {no}
      </button>
    </span>
  );
}

/** What the kernel said no to, until it is dismissed or tried again. */
export function Refusal({ keys }: { keys: readonly string[] }) {
  const { connection } = useView().panel;
  const refused = keys.filter((key) => connection.progress.value.get(key)?.phase === "failed");
  return refused.map((key) => (
    <p key={key} class="refusal" role="alert">
      <Words text={connection.progress.value.get(key)!.error} limit={400} />
      <button type="button" class="plain" onClick={() => connection.dismiss(key)}>
        Dismiss
      </button>
    </p>
  ));
}
