import type { CodecChoice, CompressionFields } from "../contract";
import { ROLE_MEANINGS } from "../words";
import { useView } from "./view";

export type Change = Partial<Omit<CompressionFields, "version">>;
export type Role = CodecChoice["roles"][number];

export interface FieldsProps {
  now: CompressionFields;
  set: (change: Change) => void;
}

/** Codec and level of one role: read only while the tuner chooses, then `auto` leaves this role to it. */
export function CodecOfRole({
  role,
  now,
  codecs,
  set,
}: FieldsProps & { role: Role; codecs: readonly CodecChoice[] }) {
  const { id } = useView();
  const name = now.codec[role] ?? "auto";
  const level = now.level[role] ?? null;
  const chosen = codecs.find((codec) => codec.name === name);
  const choices = codecs.filter(
    (codec) => codec.roles.includes(role) && (codec.lossless || !now.lossless_only || codec === chosen),
  );
  const levels = chosen ? range(chosen.least_level, chosen.most_level) : [];
  const auto = now.mode === "auto";
  return (
    <>
      <label for={`${id}-codec-${role}`} title={ROLE_MEANINGS[role]}>
        {role}
      </label>
      <span class="pair">
        <select
          id={`${id}-codec-${role}`}
          disabled={auto}
          value={name}
          // the level of one codec means nothing to another
          onChange={(event) => set({ codec: { [role]: event.currentTarget.value }, level: { [role]: null } })}
        >
          <option value="auto" selected={name === "auto"}>
            auto
          </option>
          {choices.map((codec) => (
            <option key={codec.name} value={codec.name} selected={codec === chosen}>
              {codec.name}
              {codec.lossless ? "" : " (lossy)"}
            </option>
          ))}
        </select>
        <select
          aria-label={`level for ${role}`}
          disabled={auto || levels.length < 2}
          value={level ?? ""}
          onChange={(event) =>
            set({
              level: { [role]: event.currentTarget.value === "" ? null : Number(event.currentTarget.value) },
            })
          }
        >
          <option value="" selected={level === null}>
            {chosen && levels.length > 1 ? `level ${chosen.default_level}, its default` : "level"}
          </option>
          {levels.map((choice) => (
            <option key={choice} value={choice} selected={choice === level}>
              level {choice}
            </option>
          ))}
        </select>
      </span>
    </>
  );
}

function range(least: number, most: number): number[] {
  return Array.from({ length: most - least + 1 }, (_, offset) => least + offset);
}
