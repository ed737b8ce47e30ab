import { CODEC_ROLES, type CodecFile, type CodecScripts } from '../profile';

/** The scripts of a codec as the column `scripts` of device_codecs holds them, as JSON: each file once, in the order in which roles name them. */
export interface StoredScripts {
  readonly files: readonly CodecFile[];
  /** The place in `files` of the one that does this; null: none does. */
  readonly encoder: number | null;
  readonly decoder: number | null;
  readonly downlinkDecoder: number | null;
}

/** What device_codecs holds of the scripts of a codec. */
export interface ScriptColumns {
  readonly decodes_uplinks: number;
  readonly encodes_downlinks: number;
  readonly scripts: string;
}

/** The columns of scripts. Equal scripts give equal ones. */
export function scriptsToColumns(scripts: CodecScripts): ScriptColumns {
  return { decodes_uplinks: Number(scripts.decoder !== undefined), encodes_downlinks: Number(scripts.encoder !== undefined), scripts: scriptsToColumn(scripts) };
}

function scriptsToColumn(scripts: CodecScripts): string {
  const files: CodecFile[] = [];
  const stored: Record<string, unknown> = { files };
  for (const role of CODEC_ROLES) {
    const file = scripts[role];
    stored[role] = file ? place(files, file) : null;
  }
  return JSON.stringify(stored);
}

/** Two files of one name are two, if their texts differ. */
function place(files: CodecFile[], { name, text }: CodecFile): number {
  const at = files.findIndex((file) => file.name === name && file.text === text);
  return at >= 0 ? at : files.push({ name, text }) - 1;
}

/** Reads the column. Roles of one file share it: they are the same object. */
export function scriptsFromColumn(column: string): CodecScripts {
  const { files, encoder, decoder, downlinkDecoder } = JSON.parse(column) as StoredScripts;
  const file = (at: number | null): CodecFile | undefined => (at === null ? undefined : files[at]);
  return { encoder: file(encoder), decoder: file(decoder), downlinkDecoder: file(downlinkDecoder) };
}
