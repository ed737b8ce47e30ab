import type { TestDatabase } from '../support/engines';
import { type ExecutionRoom, prepare, startExecutionRoom } from './executionRoom';

/** What the tests of a suite work with. */
interface Made {
  readonly db: TestDatabase;
  readonly room: ExecutionRoom;
}

/** One room for all tests of the suite, on a database of its own. */
export function roomForAll(createDatabase: () => Promise<TestDatabase>, use: (made: Made) => void): void {
  let made: Made;
  beforeAll(async () => {
    const db = await createDatabase();
    await prepare(db.database);
    made = { db, room: await startExecutionRoom(db.database) };
    use(made);
  });
  afterAll(async () => {
    await made.room.stop();
    await made.db.drop();
  });
}

/** A room of its own for each test of the suite, all on one database. `current` is the one to stop: a test may have started another. */
export function roomForEach(createDatabase: () => Promise<TestDatabase>, use: (made: Made) => void, current: () => ExecutionRoom): void {
  let db: TestDatabase;
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
  });
  beforeEach(async () => use({ db, room: await startExecutionRoom(db.database) }));
  afterEach(async () => await current().stop());
  afterAll(async () => await db.drop());
}
