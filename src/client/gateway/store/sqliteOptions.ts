/** Where a store is kept. */
export interface SqliteFileOptions {
  /** Its path. Beside it there is a second file while it is open, with `-wal` behind its name; the two belong together. */
  readonly file: string;
  /** The machine code of better-sqlite3 (a path of a `.node` file, or the loaded addon) where it cannot be found by itself, as in a bundle. */
  readonly nativeBinding?: string | object;
}
