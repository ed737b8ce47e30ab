import { CODEC_ROLES, type CodecFile, type CodecScripts } from '../profile';

/** The scripts of a codec as the column `scripts` of device_codecs holds them, as JSON: each file once, in the order in which roles name them. */
export interface StoredScripts {
  readonly files: readonly CodecFile[];
  /** The place in `files` of the one that does this; null: none does. */
  readonly encoder: number | null;
  readonly decoder: number | null;
  readonly downlinkDecoder: number | null;
}

/** The column's text. Equal scripts give equal texts. */
export function scriptsToColumn(scripts: CodecScripts): string {
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
