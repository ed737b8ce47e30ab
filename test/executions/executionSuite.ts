import type { TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';
import { type ExecutionFixture, prepare, startExecutionFixture } from './executionFixture';

/** The fixture and the database that the tests of a suite use. */
interface SuiteResources {
  readonly db: TestDatabase;
  readonly fixture: ExecutionFixture;
}

/** Creates one fixture for all tests of the suite, with its own database. */
export function fixtureForAll(
  createDatabase: () => Promise<TestDatabase>,
  use: (resources: SuiteResources) => void,
): void {
  let resources: SuiteResources;
  beforeAll(async () => {
    const db = await createDatabase();
    await prepare(db.database);
    resources = { db, fixture: await startExecutionFixture(db.database) };
    use(resources);
  });
  afterAll(async () => {
    await resources.fixture.stop();
    await resources.db.drop();
  });
}

/**
 * Creates a separate fixture for each test of the suite, all on one database. `current` returns the one to stop,
 * because a test may have started another one. `createClock` returns the clock of each fixture.
 */
export function fixtureForEach(
  createDatabase: () => Promise<TestDatabase>,
  use: (resources: SuiteResources) => void,
  current: () => ExecutionFixture,
  createClock = () => new TestClock(),
): void {
  let db: TestDatabase;
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
  });
  beforeEach(async () => use({ db, fixture: await startExecutionFixture(db.database, createClock()) }));
  afterEach(async () => await current().stop());
  afterAll(async () => await db.drop());
}
