import type { Knex } from 'knex';
import { SYSTEM_OWNER, type OwnThenSystemPosition } from './sensorTemplate';

/**
 * Rows of a list that shows an organization's own records newest first, and then those that come with the server.
 * `rowsOf` selects an owner's rows from a table under the alias `r`.
 */
export async function listOwnThenSystem<Row>(
  rowsOf: (owner: string) => Knex.QueryBuilder,
  organizationId: string,
  after: OwnThenSystemPosition | undefined,
  limit: number | undefined,
): Promise<Row[]> {
  const page = async (owner: string, from: OwnThenSystemPosition | undefined, size: number | undefined): Promise<Row[]> => {
    const query = rowsOf(owner).orderBy([{ column: 'r.created_at', order: 'desc' }, { column: 'r.id', order: 'desc' }]);
    if (from) query.whereRaw('(r.created_at, r.id) < (?, ?)', [from.createdAt, from.id]);
    if (size !== undefined) query.limit(size);
    return (await query) as Row[];
  };
  if (after?.system) return await page(SYSTEM_OWNER, after, limit);
  const own = await page(organizationId, after, limit);
  const room = limit === undefined ? undefined : limit - own.length;
  return room === 0 ? own : [...own, ...(await page(SYSTEM_OWNER, undefined, room))];
}
