import type { Knex } from 'knex';
import { codeOf, messageOf } from '../translate';
import type { Dialect } from './dialect';

// Connection lost or refused, resources used up, shutting down, and what repeating the transaction heals.
const UNAVAILABLE = /^(08...|53...|57P0[1-5]|25006|25P0[34]|40001|40P01|55P03|58030|ECONN\w*|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)$/;
// pg reports some losses by words only.
const LOST = /^(Connection terminated|Client has encountered a connection error|timeout expired|timeout exceeded|Knex: Timeout acquiring|Unable to acquire a connection|aborted$)/;

/** How PostgreSQL says it. */
export const postgres: Dialect = {
  name: 'postgres',
  isUniqueViolation: (error) => codeOf(error) === '23505',
  isForeignKeyViolation: (error) => codeOf(error) === '23503',
  isUnavailable: (error) => UNAVAILABLE.test(codeOf(error)) || LOST.test(messageOf(error).replace(/^.* - /s, '')),
  lockForUpdate: (query) => query.forUpdate() as typeof query,
  forUpdate: 'for update',
  clustered: '',
  tables: 'select tablename as name from pg_tables where schemaname = current_schema() order by tablename',
  byBytes: (text) => `${text} collate "C"`,
  jsonObject: (members) => `json_build_object(${pairs(members)})`,
  jsonArray: (element, from, orderBy) => `coalesce((select json_agg(${element} order by ${orderBy}) from ${from}), '[]'::json)`,
  jsonText: (column) => `(${column})::json`,
  nameHolds,
  createNameSearch,
  dropNameSearch: async (knex) => {
    await knex.raw('drop index if exists digital_devices_search');
  },
};

function pairs(members: Readonly<Record<string, string>>): string {
  return Object.entries(members).map(([name, expression]) => `'${name}', ${expression}`).join(', ');
}

function nameHolds<Q extends Knex.QueryBuilder>(query: Q, folded: string): Q {
  if (folded.includes('\0')) return query.whereRaw('1 = 0') as Q; // no name holds one, and PostgreSQL refuses to hear it
  const literal = folded.replaceAll(/[\\%_]/g, String.raw`\$&`);
  return query.whereRaw('d.name_folded like ?', [`%${literal}%`]) as Q;
}

/** What an administrator runs when the program's user may not. */
export const NAME_SEARCH_SQL = 'create index digital_devices_search on digital_devices using gin (name_folded gin_trgm_ops)';

/** Without the right to make the extension the search reads all names of the organization; the engine warns at start. */
async function createNameSearch(knex: Knex): Promise<void> {
  try {
    await knex.transaction(async (savepoint) => {
      await savepoint.raw('create extension if not exists pg_trgm');
      await savepoint.raw(NAME_SEARCH_SQL);
    });
  } catch (error) {
    if (!REFUSED.has(codeOf(error))) throw error;
  }
}

// No right, no such extension on this server, no such operator class.
const REFUSED = new Set(['42501', '58P01', '0A000', '42704', '22023']);
