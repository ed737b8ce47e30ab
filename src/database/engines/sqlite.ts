import type { Knex } from 'knex';
import { codeOf, messageOf } from '../translate';
import type { Dialect } from './dialect';

const UNIQUE = new Set(['SQLITE_CONSTRAINT_UNIQUE', 'SQLITE_CONSTRAINT_PRIMARYKEY', 'SQLITE_CONSTRAINT_ROWID']);
const UNAVAILABLE = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|CANTOPEN|READONLY|NOMEM|PROTOCOL|CORRUPT_VTAB)/; // the last: the index of names, which is made anew at once
// Said by words only: the program is shutting down.
const CLOSED = /connection is not open$/;

/** How SQLite says it. */
export const sqlite: Dialect = {
  name: 'sqlite',
  isUniqueViolation: (error) => UNIQUE.has(codeOf(error)),
  isForeignKeyViolation: (error) => codeOf(error) === 'SQLITE_CONSTRAINT_FOREIGNKEY',
  isUnavailable: (error) => UNAVAILABLE.test(codeOf(error)) || CLOSED.test(messageOf(error)),
  lockForUpdate: (query) => query,
  forUpdate: '',
  clustered: ' without rowid',
  // Without those of SQLite itself, and of its text search.
  tables: "select name from sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\' and name not like 'digital\\_devices\\_search%' escape '\\' order by name",
  byBytes: (text) => `${text} collate binary`,
  jsonObject: (members) => `json_object(${pairs(members)})`,
  jsonArray: (element, from, orderBy) => `(select json_group_array(${element} order by ${orderBy}) from ${from})`,
  // A subquery's result is text, as a column is; json() reads it again, which costs as much as making it.
  jsonText: (column) => `json(${column})`,
  nameHolds,
  createNameSearch,
  dropNameSearch,
};

function pairs(members: Readonly<Record<string, string>>): string {
  return Object.entries(members).map(([name, expression]) => `'${name}', ${expression}`).join(', ');
}

function nameHolds<Q extends Knex.QueryBuilder>(query: Q, folded: string): Q {
  if (folded.includes('\0')) return query.whereRaw('1 = 0') as Q; // no name holds one
  if (Array.from(folded).length < 3) return query.whereRaw('instr(d.name_folded, ?) > 0', [folded]) as Q;
  // As a join the matches come first and then their rows; as "in (...)" SQLite reads all devices of the organization.
  const phrase = `"${folded.replaceAll('"', '""')}"`;
  return query.joinRaw('inner join digital_devices_search as search on search.rowid = d.seq').whereRaw('search.digital_devices_search match ?', [phrase]) as Q;
}

/** Makes the index of names anew from the names themselves. */
export const REBUILD_NAME_SEARCH = "insert into digital_devices_search (digital_devices_search) values ('rebuild')";

async function createNameSearch(knex: Knex): Promise<void> {
  const add = 'insert into digital_devices_search (rowid, name_folded) values (new.seq, new.name_folded);';
  const remove = "insert into digital_devices_search (digital_devices_search, rowid, name_folded) values ('delete', old.seq, old.name_folded);";
  await knex.raw("create virtual table digital_devices_search using fts5 (name_folded, content='digital_devices', content_rowid='seq', tokenize='trigram case_sensitive 1')");
  await knex.raw(`create trigger digital_devices_search_insert after insert on digital_devices begin ${add} end`);
  await knex.raw(`create trigger digital_devices_search_delete after delete on digital_devices begin ${remove} end`);
  await knex.raw(`create trigger digital_devices_search_update after update of name_folded on digital_devices begin ${remove} ${add} end`);
}

async function dropNameSearch(knex: Knex): Promise<void> {
  for (const event of ['insert', 'delete', 'update']) await knex.raw(`drop trigger digital_devices_search_${event}`);
  await knex.raw('drop table digital_devices_search');
}
