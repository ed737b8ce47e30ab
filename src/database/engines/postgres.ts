import type { Knex } from 'knex';
import { getCode, formatMessage } from '../translate';
import { formatPairs, type Dialect } from './dialect';

// SQLSTATE codes and error codes of Node.js: connection lost or refused (08), resources exhausted (53), shutting down
// (57P), read-only or aborted (25), errors that a retry of the transaction resolves (40, 55P03), and I/O errors
// (58030).
const UNAVAILABLE_CODE =
  /^(08...|53...|57P0[1-5]|25006|25P0[34]|40001|40P01|55P03|58030|ECONN\w*|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)$/;
// pg reports some losses only as text.
const CONNECTION_LOST_MESSAGE =
  /^(Connection terminated|Client has encountered a connection error|timeout expired|Query read timeout|timeout exceeded|Knex: Timeout acquiring|Unable to acquire a connection|aborted$)/;

const UNIQUE_VIOLATION = '23505';
const FOREIGN_KEY_VIOLATION = '23503';

/** The dialect of PostgreSQL. */
export const postgres: Dialect = {
  name: 'postgres',
  isUniqueViolation: (error) => getCode(error) === UNIQUE_VIOLATION,
  isForeignKeyViolation: (error) => getCode(error) === FOREIGN_KEY_VIOLATION,
  // Knex puts the statement before the message, separated by " - ".
  isUnavailable: (error) =>
    UNAVAILABLE_CODE.test(getCode(error)) || CONNECTION_LOST_MESSAGE.test(formatMessage(error).replace(/^.* - /s, '')),
  lockForUpdate: (query) => query.forUpdate() as typeof query,
  forUpdate: 'for update',
  clustered: '',
  tableNames:
    "select tablename as name from pg_tables where schemaname = current_schema() and tablename <> 'leases' order by tablename",
  byBytes: (text) => `${text} collate "C"`,
  jsonObject: (members) => `json_build_object(${formatPairs(members)})`,
  jsonArray: (element, from, orderBy) =>
    `coalesce((select json_agg(${element} order by ${orderBy}) from ${from}), '[]'::json)`,
  jsonText: (column) => `(${column})::json`,
  whereNameContains,
  createNameSearch,
  dropNameSearch: async (knex) => {
    await knex.raw('drop index if exists digital_devices_search');
  },
};

/** Adds a `like` condition in which the characters with a meaning in patterns are escaped. */
function whereNameContains<Q extends Knex.QueryBuilder>(query: Q, normalizedText: string): Q {
  // Names never contain NUL, and PostgreSQL rejects it.
  if (normalizedText.includes('\0')) return query.whereRaw('1 = 0') as Q;
  const literal = normalizedText.replaceAll(/[\\%_]/g, String.raw`\$&`);
  return query.whereRaw('d.name_folded like ?', [`%${literal}%`]) as Q;
}

/** What an administrator runs if the program's user may not. */
export const NAME_SEARCH_SQL =
  'create index digital_devices_search on digital_devices using gin (name_folded gin_trgm_ops)';

/**
 * Creates the trigram index, in a savepoint so that a failure does not end the migration. Without the permission to
 * create the extension, the search reads all names of the organization, and the engine warns at the start.
 */
async function createNameSearch(knex: Knex): Promise<void> {
  try {
    await knex.transaction(async (savepoint) => {
      await savepoint.raw('create extension if not exists pg_trgm');
      await savepoint.raw(NAME_SEARCH_SQL);
    });
  } catch (error) {
    if (!EXTENSION_UNAVAILABLE_CODES.has(getCode(error))) throw error;
  }
}

// No permission, no such extension on this server, no such operator class.
const EXTENSION_UNAVAILABLE_CODES = new Set(['42501', '58P01', '0A000', '42704', '22023']);
