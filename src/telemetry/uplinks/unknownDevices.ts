import { setImmediate as othersTurn } from 'node:timers/promises';
import { UnitOfWork, type Database } from '../../database';
import type { Logger } from '../../kernel/logger';
import { ConnectorKeyRepository, type Source } from '../keys/connectorKeyRepository';
import { DiscoveredDeviceRepository, type SeenPlace } from './discoveredDeviceRepository';
import { UnboundSources } from './unboundSources';

/** Of how many physical devices of a connection that are bound to none something is kept. */
export interface UnknownLimits {
  /** Their connector keys. */
  readonly keys: number;
  /** That they exist, and what they sent last. */
  readonly listed: number;
}

const LIMITS: UnknownLimits = { keys: 1000, listed: 10_000 };
const LOOKED_AT_ONCE = 500;

/** An uplink of a physical device that is bound to none. */
export interface UnknownUplink extends Source {
  readonly organizationId: string;
}

/** Keeps what is stored of devices that nobody bound within bounds: whoever sends can invent such devices without end. */
export class UnknownDevices {
  private readonly sources: UnboundSources;
  /** How many are listed, by connection; counted when it is asked for first. */
  private readonly listed = new Map<string, number>();
  /** Connections whose losses are in the log already. */
  private readonly told = new Set<string>();
  private readonly work;

  constructor(
    database: Database,
    private readonly log: Logger,
    private readonly limits = LIMITS,
  ) {
    this.sources = new UnboundSources(limits.keys);
    this.work = new UnitOfWork(database, (db) => ({ keys: new ConnectorKeyRepository(db), discovered: new DiscoveredDeviceRepository(db) }));
  }

  /** One sent something, which is stored; `isDiscovery`: for the first time. What is too much by now is removed. */
  async seen(uplink: UnknownUplink, isDiscovery: boolean): Promise<void> {
    const dropped = this.sources.add(uplink);
    if (dropped) await this.dropKeys(uplink, dropped);
    if (isDiscovery) await this.dropOldest(uplink);
  }

  /** It is bound by now. */
  bound(source: Source): void {
    this.sources.remove(source);
  }

  /** The connection was deleted. */
  forget(connectionId: string): void {
    this.sources.forget(connectionId);
  }

  /** Removes the keys of devices of a connection that were seen less recently than the first so many: of those that were seen before the last start nothing else knows. */
  async trimKeys(organizationId: string, connectionId: string): Promise<void> {
    const { discovered, keys } = this.work.repos;
    for (let after: SeenPlace | number | undefined = this.limits.keys; after !== undefined; ) {
      const page: Awaited<ReturnType<typeof discovered.seenBefore>> = await discovered.seenBefore(organizationId, connectionId, after, LOOKED_AT_ONCE);
      for (const { clientDeviceId, hasKeys } of page) if (hasKeys) await keys.deleteUnbound(organizationId, { connectionId, clientDeviceId });
      await othersTurn();
      after = page.at(-1);
    }
  }

  /** Others may have removed some: counts anew from now on, and tells of losses again. */
  recount(): void {
    this.listed.clear();
    this.told.clear();
  }

  private async dropKeys({ organizationId }: UnknownUplink, dropped: Source): Promise<void> {
    await this.work.repos.keys.deleteUnbound(organizationId, dropped);
    this.tell('keys', organizationId, dropped);
  }

  private async dropOldest(uplink: UnknownUplink): Promise<void> {
    const { organizationId, connectionId } = uplink;
    const known = this.listed.get(connectionId);
    const listed = known === undefined ? await this.work.repos.discovered.count(organizationId, connectionId) : known + 1;
    this.listed.set(connectionId, Math.min(listed, this.limits.listed));
    if (listed <= this.limits.listed) return;
    await this.work.transaction(async ({ discovered, keys }) => {
      for (const clientDeviceId of await discovered.dropOldest(organizationId, connectionId, listed - this.limits.listed)) await keys.deleteUnbound(organizationId, { connectionId, clientDeviceId });
    });
    this.tell('listed', organizationId, uplink);
  }

  /** Once for each connection, until the next count: who invents devices shall not fill the log too. */
  private tell(what: keyof UnknownLimits, organizationId: string, { connectionId, clientDeviceId }: Source): void {
    const key = `${what} ${connectionId}`;
    if (this.told.has(key)) return;
    this.told.add(key);
    this.log.warn({ organization_id: organizationId, connection_id: connectionId, client_device_id: clientDeviceId, what, kept: this.limits[what] }, 'telemetry.unbound_dropped');
  }
}
