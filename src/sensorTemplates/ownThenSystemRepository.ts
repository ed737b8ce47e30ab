import type { Knex } from 'knex';
import { SYSTEM_OWNER, type OwnThenSystemPosition } from './sensorTemplate';

/**
 * Reads the rows of a list that shows an organization's own records, newest first, and then the system records.
 * `queryOwner` selects an owner's rows from a table under the alias `r`.
 */
export async function listOwnThenSystem<Row>(
  queryOwner: (owner: string) => Knex.QueryBuilder,
  organizationId: string,
  after: OwnThenSystemPosition | undefined,
  limit: number | undefined,
): Promise<Row[]> {
  const readPage = async (
    owner: string,
    start: OwnThenSystemPosition | undefined,
    size: number | undefined,
  ): Promise<Row[]> => {
    const query = queryOwner(owner).orderBy([
      { column: 'r.created_at', order: 'desc' },
      { column: 'r.id', order: 'desc' },
    ]);
    if (start) query.whereRaw('(r.created_at, r.id) < (?, ?)', [start.createdAt, start.id]);
    if (size !== undefined) query.limit(size);
    return (await query) as Row[];
  };
  if (after?.system) return await readPage(SYSTEM_OWNER, after, limit); // all own records come before this position
  const own = await readPage(organizationId, after, limit);
  const remaining = limit === undefined ? undefined : limit - own.length;
  return remaining === 0 ? own : [...own, ...(await readPage(SYSTEM_OWNER, undefined, remaining))];
}
