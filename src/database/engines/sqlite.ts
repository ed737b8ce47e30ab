import type { Knex } from 'knex';
import { getCode, formatMessage } from '../translate';
import { formatPairs, type Dialect } from './dialect';

const UNIQUE_CODES = new Set(['SQLITE_CONSTRAINT_UNIQUE', 'SQLITE_CONSTRAINT_PRIMARYKEY', 'SQLITE_CONSTRAINT_ROWID']);
// CORRUPT_VTAB: the name index, which is rebuilt immediately.
const UNAVAILABLE_CODE = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|CANTOPEN|READONLY|NOMEM|PROTOCOL|CORRUPT_VTAB)/;
// Reported only as text: the program is shutting down.
const CLOSED_MESSAGE = /connection is not open$/;

/** The dialect of SQLite. */
export const sqlite: Dialect = {
  name: 'sqlite',
  isUniqueViolation: (error) => UNIQUE_CODES.has(getCode(error)),
  isForeignKeyViolation: (error) => getCode(error) === 'SQLITE_CONSTRAINT_FOREIGNKEY',
  isUnavailable: (error) => UNAVAILABLE_CODE.test(getCode(error)) || CLOSED_MESSAGE.test(formatMessage(error)),
  lockForUpdate: (query) => query,
  forUpdate: '',
  clustered: ' without rowid',
  // Without the tables of SQLite itself and of its text search.
  tableNames:
    "select name from sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\' and name not like 'digital\\_devices\\_search%' escape '\\' order by name",
  byBytes: (text) => `${text} collate binary`,
  jsonObject: (members) => `json_object(${formatPairs(members)})`,
  jsonArray: (element, from, orderBy) => `(select json_group_array(${element} order by ${orderBy}) from ${from})`,
  // A subquery's result is text, like a column. json() parses it again, which costs as much as creating it.
  jsonText: (column) => `json(${column})`,
  whereNameContains,
  createNameSearch,
  dropNameSearch,
};

/**
 * Adds the condition for the trigram index; a text of less than three characters has no trigram, so it is searched in
 * all names.
 */
function whereNameContains<Q extends Knex.QueryBuilder>(query: Q, normalizedText: string): Q {
  if (normalizedText.includes('\0')) return query.whereRaw('1 = 0') as Q; // names never contain one
  if (Array.from(normalizedText).length < 3)
    return query.whereRaw('instr(d.name_folded, ?) > 0', [normalizedText]) as Q;
  // As a join, the matches are read first and then their rows; with "in (...)" SQLite reads all devices of the
  // organization.
  const phrase = `"${normalizedText.replaceAll('"', '""')}"`;
  return query
    .joinRaw('inner join digital_devices_search as search on search.rowid = d.seq')
    .whereRaw('search.digital_devices_search match ?', [phrase]) as Q;
}

/** Rebuilds the name index from the names. */
export const REBUILD_NAME_SEARCH = "insert into digital_devices_search (digital_devices_search) values ('rebuild')";

/**
 * Creates the trigram index (a table of SQLite's text search, FTS5) and the triggers that update it with each change of
 * a name.
 */
async function createNameSearch(knex: Knex): Promise<void> {
  // The index reads the names from digital_devices (`content`), so it does not know the name of a deleted row: the
  // special insert with 'delete' and the old name removes the row from the index.
  const insertRow = 'insert into digital_devices_search (rowid, name_folded) values (new.seq, new.name_folded);';
  const deleteRow =
    "insert into digital_devices_search (digital_devices_search, rowid, name_folded) values ('delete', old.seq, old.name_folded);";
  await knex.raw(
    "create virtual table digital_devices_search using fts5 (name_folded, content='digital_devices', content_rowid='seq', tokenize='trigram case_sensitive 1')",
  );
  await knex.raw(`create trigger digital_devices_search_insert after insert on digital_devices begin ${insertRow} end`);
  await knex.raw(`create trigger digital_devices_search_delete after delete on digital_devices begin ${deleteRow} end`);
  await knex.raw(
    `create trigger digital_devices_search_update after update of name_folded on digital_devices begin ${deleteRow} ${insertRow} end`,
  );
}

async function dropNameSearch(knex: Knex): Promise<void> {
  for (const event of ['insert', 'delete', 'update']) await knex.raw(`drop trigger digital_devices_search_${event}`);
  await knex.raw('drop table digital_devices_search');
}
