import fc from 'fast-check';
import { type Database, normalizeForSearch } from '../../src/database';
import { engines, type TestDatabase } from '../support/engines';

const ALPHABET = [
  'a',
  'b',
  'A',
  'ä',
  'Ä',
  'ß',
  'e\u0301',
  'é',
  'İ',
  'Σ',
  '😀',
  '日',
  '%',
  '_',
  '\\',
  '"',
  "'",
  '*',
  '-',
  ' ',
  '(',
  ':',
  '0',
];
const SEED = 20_261_120;

async function addDevices(database: Database, organizationId: string, names: readonly string[]): Promise<void> {
  await database.db
    .knex('organizations')
    .insert({ id: organizationId, name: organizationId, name_folded: organizationId, created_at: 1, updated_at: 1 });
  const rows = names.map((name, at) => ({
    id: `${organizationId}-${at}`,
    organization_id: organizationId,
    name,
    name_folded: normalizeForSearch(name),
    revision: 1,
    created_at: at,
    updated_at: at,
  }));
  await database.transaction(async (db) => {
    for (let at = 0; at < rows.length; at += 50) await db.knex('digital_devices').insert(rows.slice(at, at + 50));
  });
}

async function search(database: Database, organizationId: string, text: string): Promise<string[]> {
  const query = database.db
    .knex('digital_devices as d')
    .where('d.organization_id', organizationId)
    .orderBy('d.created_at');
  return await database.dialect.whereNameContains(query, normalizeForSearch(text)).pluck('d.name');
}

describe.each(engines())('search by name on $name', ({ createDatabase }) => {
  let test: TestDatabase;
  beforeAll(async () => {
    test = await createDatabase();
    await addDevices(test.database, 'o1', NAMES);
  });
  afterAll(async () => await test.drop());

  const NAMES = [
    'Kühlraum Köln',
    'KÜHLHAUS',
    'Valve 50% open',
    'Valve 500 open',
    'snake_case',
    'snakeXcase',
    'He said "on"',
    "it's",
    'back\\slash',
    'Cafe\u0301',
    '日本語',
    '😀😀😀',
    'ΟΔΟΣΑ',
  ];

  it.each([
    ['one character', 'k', ['Kühlraum Köln', 'KÜHLHAUS', 'snake_case', 'snakeXcase', 'back\\slash']],
    ['two characters', 'kü', ['Kühlraum Köln', 'KÜHLHAUS']],
    ['three characters', 'üHL', ['Kühlraum Köln', 'KÜHLHAUS']],
    ['more', 'kühlraum k', ['Kühlraum Köln']],
    ['a percent sign', '50%', ['Valve 50% open']],
    ['a percent sign alone', '%', ['Valve 50% open']],
    ['an underscore', 'snake_', ['snake_case']],
    ['an underscore alone', '_', ['snake_case']],
    ['quotes', 'said "on"', ['He said "on"']],
    ['a quote alone', '"', ['He said "on"']],
    ['an apostrophe', "it's", ["it's"]],
    ['a backslash', 'back\\', ['back\\slash']],
    ['a composed letter for a decomposed one', 'café', ['Cafe\u0301']],
    ['symbols without words', '本語', ['日本語']],
    ['a letter with another form at the end of a word', 'ΟΔΟΣ', ['ΟΔΟΣΑ']],
    ['symbols outside the basic plane', '😀😀😀', ['😀😀😀']],
    ['words of the search language', 'NEAR(', []],
    ['an operator of the search language', 'a* OR b', []],
    ['a NUL', 'a\0b', []],
    ['nothing', '', NAMES],
  ])('finds %s', async (_what, text, found) => {
    expect(await search(test.database, 'o1', text)).toEqual(found);
  });

  it('reflects changes and deletions, also those of an organization', async () => {
    const { database } = test;
    await addDevices(database, 'changing', ['Boiler', 'Pump']);
    await addDevices(database, 'deleted', ['Boiler of another']);
    const { knex } = database.db;
    await knex('digital_devices').where({ id: 'changing-1' }).update({ name: 'Boiler two', name_folded: 'boiler two' });
    expect(await search(database, 'changing', 'boiler')).toEqual(['Boiler', 'Boiler two']);
    expect(await search(database, 'changing', 'pump')).toEqual([]);
    await knex('digital_devices').where({ id: 'changing-0' }).delete();
    expect(await search(database, 'changing', 'boiler')).toEqual(['Boiler two']);
    await knex('organizations').where({ id: 'deleted' }).delete();
    expect(await search(database, 'deleted', 'boiler')).toEqual([]);
    await addDevices(database, 'new', ['New']);
    expect(await search(database, 'new', 'boiler')).toEqual([]);
  });

  it(`finds any text that a name contains (seed ${SEED})`, async () => {
    const { database } = test;
    const word = fc.array(fc.constantFrom(...ALPHABET), { minLength: 1, maxLength: 8 }).map((parts) => parts.join(''));
    const names = fc.sample(word, { numRuns: 300, seed: SEED });
    await addDevices(database, 'any', names);
    await addDevices(database, 'other', names);
    const text = fc.array(fc.constantFrom(...ALPHABET), { minLength: 1, maxLength: 4 }).map((parts) => parts.join(''));
    await fc.assert(
      fc.asyncProperty(text, async (term) => {
        const expected = names.filter((name) => normalizeForSearch(name).includes(normalizeForSearch(term)));
        expect(await search(database, 'any', term)).toEqual(expected);
      }),
      { seed: SEED, numRuns: 150 },
    );
  });
});
