/** The options of sqliteStore. */
export interface SqliteFileOptions {
  /**
   * The path of the file. While the store is open, there is a second file with the suffix `-wal`; the two belong
   * together.
   */
  readonly file: string;
  /**
   * The native addon of better-sqlite3 (the path of a `.node` file, or the loaded addon) if it cannot be found
   * automatically, for example in a bundle.
   */
  readonly nativeBinding?: string | object;
}
