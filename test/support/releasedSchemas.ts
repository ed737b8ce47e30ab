import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { Knex } from 'knex';
import type { Database } from '../../src/database';

const FOLDER = join(__dirname, '../fixtures/schemas');

type Row = Readonly<Record<string, unknown>>;

/** The data that a released program had stored. test/fixtures/schemas/README.md describes how it was created. */
export interface Release {
  /** The newest migration of the release. */
  readonly schema: string;
  /** The key of its first start, which works as long as its row exists. */
  readonly apiKey: string;
  readonly organizationId: string;
  /** The content of secrets.key, or an empty text if it had none. */
  readonly secretsKey: string;
  /** In the order in which its tables refer to each other. */
  readonly tables: readonly { readonly table: string; readonly rows: readonly Row[] }[];
}

/** Returns the stored releases, oldest first. */
export function releases(): Release[] {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith('.jsonl.gz'))
    .toSorted()
    .map(readRelease);
}

function readRelease(name: string): Release {
  const [details, ...tables] = gunzipSync(readFileSync(join(FOLDER, name)))
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);
  return {
    schema: name.replace('.jsonl.gz', ''),
    ...(details as Pick<Release, 'apiKey' | 'organizationId' | 'secretsKey'>),
    tables: tables as Release['tables'],
  };
}

/** Inserts the rows of a release into a database of its schema, and writes its key for secrets to the data folder. */
export async function insertRelease({ db }: Database, dataDir: string, { tables, secretsKey }: Release): Promise<void> {
  for (const { table } of tables.toReversed()) await db.knex(table).delete(); // rows that the migrations inserted
  for (const { table, rows } of tables)
    for (let at = 0; at < rows.length; at += 50) await db.knex(table).insert(rows.slice(at, at + 50).map(asStored));
  if (db.dialect.name === 'postgres') await continueSequences(db.knex);
  if (secretsKey !== '') writeFileSync(join(dataDir, 'secrets.key'), secretsKey, { mode: 0o600 });
}

/** Returns the rows of a table as texts of these columns, in no specific order. */
export async function rowTexts({ db }: Database, table: string, columns: readonly string[]): Promise<string[]> {
  return (await db.knex(table).select<Row[]>('*')).map((row) => rowText(row, columns));
}

/** Returns a row as a text of these columns. */
export function rowText(row: Row, columns: readonly string[]): string {
  return JSON.stringify(
    columns.map((column) => (Buffer.isBuffer(row[column]) ? { hex: row[column].toString('hex') } : row[column])),
  );
}

function asStored(row: Row): Row {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, isBytes(value) ? Buffer.from(value.hex, 'hex') : value]),
  );
}

function isBytes(value: unknown): value is { readonly hex: string } {
  return typeof value === 'object' && value !== null && 'hex' in value;
}

/** Makes PostgreSQL continue its sequences after the inserted numbers. */
async function continueSequences(knex: Knex): Promise<void> {
  const { rows } = (await knex.raw(
    "select table_name, column_name from information_schema.columns where table_schema = current_schema() and column_default like 'nextval%'",
  )) as { rows: { table_name: string; column_name: string }[] };
  for (const { table_name, column_name } of rows)
    await knex.raw('select setval(pg_get_serial_sequence(?, ?), (select coalesce(max(??), 0) + 1 from ??))', [
      table_name,
      column_name,
      column_name,
      table_name,
    ]);
}
