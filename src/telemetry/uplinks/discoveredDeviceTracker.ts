import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { UnitOfWork, type Database } from '../../database';
import type { Logger } from '../../kernel/logger';
import { ConnectorKeyRepository, type Source } from '../keys/connectorKeyRepository';
import { DiscoveredDeviceRepository, type LastSeenPosition } from './discoveredDeviceRepository';
import { RecentUnboundDevices } from './recentUnboundDevices';

/** How many unbound physical devices per connection are stored. */
export interface UnboundDeviceLimits {
  /** The maximum number of devices whose connector keys are stored. */
  readonly keys: number;
  /** The maximum number of discovered devices, each with its last payload. */
  readonly listed: number;
}

const LIMITS: UnboundDeviceLimits = { keys: 1000, listed: 10_000 };
const LOOKUP_BATCH_SIZE = 500;

/** The source of an uplink of an unbound physical device. */
interface UnboundSource extends Source {
  readonly organizationId: string;
}

/**
 * Limits what is stored about unbound devices, because a sender can invent any number of them: their connector keys
 * (the latest value at each source path), and their entries in the list of discovered devices.
 */
export class DiscoveredDeviceTracker {
  readonly recentDevices: RecentUnboundDevices;
  /** The number of discovered devices by connection; counted when first needed. */
  private readonly listedCountByConnection = new Map<string, number>();
  /** The limits and connections for which deletions are already logged. */
  private readonly loggedDeletions = new Set<string>();
  private readonly work;

  constructor(
    database: Database,
    private readonly log: Logger,
    private readonly limits = LIMITS,
  ) {
    this.recentDevices = new RecentUnboundDevices(limits.keys);
    this.work = new UnitOfWork(database, (db) => ({
      keys: new ConnectorKeyRepository(db),
      discovered: new DiscoveredDeviceRepository(db),
    }));
  }

  /**
   * Records a stored uplink of an unbound device and deletes what exceeds the two limits of its connection: the
   * connector keys of a device (`limits.keys`), and whole devices (`limits.listed`). `isDiscovery`: it is the first
   * uplink of the device.
   */
  async addUplink(source: UnboundSource, isDiscovery: boolean): Promise<void> {
    const evicted = this.recentDevices.add(source);
    if (evicted) await this.deleteConnectorKeys(source, evicted);
    if (isDiscovery) await this.deleteExcessDevices(source);
  }

  /**
   * Deletes the connector keys of the least recently seen devices beyond `limits.keys`. This covers devices that were
   * last seen before the server started, which are not in memory.
   */
  async deleteExcessConnectorKeys(organizationId: string, connectionId: string): Promise<void> {
    const { discovered, keys } = this.work.repos;
    // Skips the devices within the limit, then continues after the last device of each page.
    for (let after: LastSeenPosition | number | undefined = this.limits.keys; after !== undefined;) {
      const page: Awaited<ReturnType<typeof discovered.listByLastSeen>> = await discovered.listByLastSeen(
        organizationId,
        connectionId,
        after,
        LOOKUP_BATCH_SIZE,
      );
      for (const { clientDeviceId, hasKeys } of page) {
        if (hasKeys) await keys.deleteUnbound(organizationId, { connectionId, clientDeviceId });
      }
      await yieldToEventLoop();
      after = page.at(-1);
    }
  }

  /**
   * Discards the cached counts, because other code may have deleted devices, and allows each deletion to be logged
   * again.
   */
  reset(): void {
    this.listedCountByConnection.clear();
    this.loggedDeletions.clear();
  }

  /** Deletes the connector keys of a device that exceeds `limits.keys`. */
  private async deleteConnectorKeys({ organizationId }: UnboundSource, evicted: Source): Promise<void> {
    await this.work.repos.keys.deleteUnbound(organizationId, evicted);
    this.logDeletion('keys', organizationId, evicted);
  }

  /** Deletes the least recently seen devices of the connection beyond `limits.listed`, with their connector keys. */
  private async deleteExcessDevices(source: UnboundSource): Promise<void> {
    const { organizationId, connectionId } = source;
    const cachedCount = this.listedCountByConnection.get(connectionId);
    const count =
      cachedCount === undefined
        ? await this.work.repos.discovered.count(organizationId, connectionId)
        : cachedCount + 1; // the new device is not counted yet
    // The count after the deletion.
    this.listedCountByConnection.set(connectionId, Math.min(count, this.limits.listed));
    if (count <= this.limits.listed) return;
    await this.work.transaction(async ({ discovered, keys }) => {
      for (const clientDeviceId of await discovered.deleteOldest(
        organizationId,
        connectionId,
        count - this.limits.listed,
      ))
        await keys.deleteUnbound(organizationId, { connectionId, clientDeviceId });
    });
    this.logDeletion('listed', organizationId, source);
  }

  /** Logs once per connection and limit until the next reset, so that invented devices cannot flood the log. */
  private logDeletion(
    limit: keyof UnboundDeviceLimits,
    organizationId: string,
    { connectionId, clientDeviceId }: Source,
  ): void {
    const key = `${limit} ${connectionId}`;
    if (this.loggedDeletions.has(key)) return;
    this.loggedDeletions.add(key);
    this.log.warn(
      {
        organization_id: organizationId,
        connection_id: connectionId,
        client_device_id: clientDeviceId,
        what: limit,
        kept: this.limits[limit],
      },
      'telemetry.unassigned_dropped',
    );
  }
}
