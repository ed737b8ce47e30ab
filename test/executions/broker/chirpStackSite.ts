import type { TestDatabase } from '../../support/engines';
import { type ExecutionFixture, prepare, startExecutionFixture } from '../executionFixture';
import { ChirpStackField, chirpStackConfiguration } from './chirpStackField';
import { JumpClock } from './jumpClock';
import { SiteBroker } from './siteBroker';

/** A server with one connection to a ChirpStack server. */
export interface ChirpStackSite {
  readonly db: TestDatabase;
  readonly fixture: ExecutionFixture;
  readonly clock: JumpClock;
  readonly broker: SiteBroker;
  readonly field: ChirpStackField;
  readonly connectionId: string;
}

/**
 * Creates a separate site for each test of the suite, all on one database. `currentFixture` returns the server to stop,
 * because a test may have started another one.
 */
export function chirpStackSiteForEach(
  createDatabase: () => Promise<TestDatabase>,
  use: (site: ChirpStackSite) => void,
  currentFixture: () => ExecutionFixture,
): void {
  let db: TestDatabase;
  let site: ChirpStackSite;
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
  });
  beforeEach(async () => {
    const clock = new JumpClock();
    const fixture = await startExecutionFixture(db.database, clock);
    const broker = await SiteBroker.start();
    const field = await ChirpStackField.start(broker.url, clock);
    const configuration = chirpStackConfiguration(broker.url);
    const connectionId = await fixture.connection({ connectorId: 'chirpstack', configuration });
    await fixture.untilConnected(connectionId);
    site = { db, fixture, clock, broker, field, connectionId };
    use(site);
  });
  afterEach(async () => {
    await site.field.server.drop();
    await currentFixture().stop();
    await site.broker.stop();
  });
  afterAll(async () => await db.drop());
}
