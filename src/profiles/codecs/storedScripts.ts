import { CODEC_ROLES, type CodecFile, type CodecScripts } from '../profile';

/**
 * The JSON in the column `scripts` of device_codecs. Each file is stored once, in the order in which the roles use it.
 */
interface StoredScripts {
  readonly files: readonly CodecFile[];
  /** The index in `files` of the file for this role; null: no file has this role. */
  readonly encoder: number | null;
  readonly decoder: number | null;
  readonly downlinkDecoder: number | null;
}

/** The columns of device_codecs for the scripts of a codec. */
export interface ScriptColumns {
  readonly decodes_uplinks: number;
  readonly encodes_downlinks: number;
  readonly scripts: string;
}

/** Converts scripts to columns. Equal scripts result in equal columns. */
export function scriptsToColumns(scripts: CodecScripts): ScriptColumns {
  return {
    decodes_uplinks: Number(scripts.decoder !== undefined),
    encodes_downlinks: Number(scripts.encoder !== undefined),
    scripts: formatScripts(scripts),
  };
}

/** Returns the JSON of the column `scripts`: each file once, and for each role the index of its file or null. */
function formatScripts(scripts: CodecScripts): string {
  const files: CodecFile[] = [];
  const stored: Record<string, unknown> = { files };
  for (const role of CODEC_ROLES) {
    const file = scripts[role];
    stored[role] = file ? findOrAddFile(files, file) : null; // adds the file to `stored.files`
  }
  return JSON.stringify(stored);
}

/**
 * Returns the index of a file in the list, and appends the file if it is missing. Files with the same name and
 * different text are different files.
 */
function findOrAddFile(files: CodecFile[], { name, text }: CodecFile): number {
  const index = files.findIndex((file) => file.name === name && file.text === text);
  return index >= 0 ? index : files.push({ name, text }) - 1;
}

/** Parses the column. Roles that use the same file share one object. */
export function scriptsFromColumn(column: string): CodecScripts {
  const { files, encoder, decoder, downlinkDecoder } = JSON.parse(column) as StoredScripts;
  const findFile = (index: number | null): CodecFile | undefined => (index === null ? undefined : files[index]);
  return { encoder: findFile(encoder), decoder: findFile(decoder), downlinkDecoder: findFile(downlinkDecoder) };
}
