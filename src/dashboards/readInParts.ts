import { splitIntoBatches } from '../kernel/splitIntoBatches';

/** A statement has a limited number of parameters. */
const MAX_IDS = 500;

/** Reads rows by many ids or names: runs `read` for at most MAX_IDS of them at a time, and returns the rows of all. */
export async function readInParts<Row>(
  ids: readonly string[],
  read: (part: string[]) => Promise<Row[]>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const part of splitIntoBatches(ids, MAX_IDS)) rows.push(...(await read([...part])));
  return rows;
}
