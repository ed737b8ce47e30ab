import { foldName, UnitOfWork, type Database, type Db } from '../database';
import type { Clock } from '../kernel/clock';
import { DomainError, throwIfAny, validationFailed, type Violation } from '../kernel/errors';
import { checkEtag } from '../kernel/etags';
import { newId } from '../kernel/ids';
import { pageOf, pageSize, type CreatedPosition, type Cursors } from '../kernel/pages';
import type { DeviceReach } from '../kernel/reach';
import type { ImageInput } from '../media';
import { checkedBinding, isSamePhysicalDevice, mayBindTo, patchedBinding, rebindingLeavesReach, unbindingLeavesReach, type BindingInput, type BindingPatch } from './binding';
import type { BindingRecord } from './bindingRepository';
import type { DataSendingInterval, Device, ListedDevice } from './device';
import type { DeviceHooks } from './deviceHooks';
import { DeviceReads } from './deviceReads';
import { deviceRepositories, type DeviceRepositories } from './deviceRepositories';

/** The device to create; the name is trimmed. */
export interface NewDevice {
  readonly name: string;
  readonly physicalDevice: BindingInput | undefined;
  readonly images?: readonly ImageInput[] | undefined;
}

/** What to change on a device; undefined stays as it is, null removes. */
export interface DeviceChange {
  readonly name: string | undefined;
  readonly physicalDevice: BindingPatch | null | undefined;
  readonly dataSendingInterval: DataSendingInterval | null | undefined;
  /** All pictures from now on. */
  readonly images?: readonly ImageInput[] | undefined;
}

/** What to list. An empty search or token is none; offset and token exclude each other. */
export interface DeviceQuery {
  readonly limit: number | undefined;
  readonly offset: number | undefined;
  readonly search: string;
  readonly pageToken: string;
  /** Unix milliseconds: only devices that were last seen before, or were created before and never seen. */
  readonly lastSeenBefore: number | undefined;
}

/** One page of devices; `total` counts those of all pages, `nextPageToken` is empty on the last. */
export interface DevicePage {
  readonly devices: readonly ListedDevice[];
  readonly total: number;
  readonly nextPageToken: string;
}

/** What the room needs of the house. */
export interface DeviceOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly cursors: Cursors;
  readonly hooks: DeviceHooks;
}

/** An update of a device, inside its transaction; nobody else changes the device meanwhile. */
interface DeviceUpdate {
  readonly repos: DeviceRepositories;
  readonly db: Db;
  readonly device: Device;
  readonly now: number;
  /** Of the key that asks; undefined: it is not limited. */
  readonly reach: DeviceReach | undefined;
}

/** Digital devices and what they are bound to. Assumes that the field rules of the proto hold. */
export class DeviceService {
  private readonly work: UnitOfWork<DeviceRepositories>;
  private readonly reads: DeviceReads;

  constructor(private readonly options: DeviceOptions) {
    this.work = new UnitOfWork(options.database, deviceRepositories);
    this.reads = new DeviceReads(this.work.repos.devices);
  }

  /** Creates a device, bound to a physical device where one is given. Throws `connection_not_found`, `physical_device_already_bound`, `validation_failed`. */
  async create(organizationId: string, device: NewDevice): Promise<Device> {
    const id = newId();
    const now = this.options.clock.now();
    const { name, physicalDevice, images = [] } = device;
    return await this.work.transaction(async (repos) => {
      const wrong = await repos.images.check(organizationId, images);
      const binding = await together(wrong, async () => physicalDevice && (await checkedBinding(repos, organizationId, physicalDevice, now)));
      await repos.devices.create(organizationId, { id, name, createdAt: now });
      if (binding) await repos.bindings.create(organizationId, id, binding);
      if (images.length > 0) await repos.images.set(organizationId, id, images, now);
      return await repos.devices.get(organizationId, id);
    });
  }

  /** The same object as before where nothing changed. Throws `device_not_found`. */
  get(organizationId: string, id: string): Promise<Device> {
    return this.reads.get(organizationId, id);
  }

  /** Names those of the pictures that the organization does not have, or that lie outside the reach of a limited key. */
  checkImages(organizationId: string, images: readonly ImageInput[], reach?: DeviceReach): Promise<Violation[]> {
    return this.work.repos.images.check(organizationId, images, reach);
  }

  /** Newest created first; with the reach of a limited key those inside alone. Throws `validation_failed` for a token that this list did not give out. */
  async list(organizationId: string, query: DeviceQuery, reach?: DeviceReach): Promise<DevicePage> {
    const { repos } = this.work;
    const lists = reach ? repos.reachedLists(reach) : repos.lists;
    const { lastSeenBefore } = query;
    const name = [organizationId, 'devices', query.search, ...(lastSeenBefore === undefined ? [] : [String(lastSeenBefore)])];
    const after = this.options.cursors.decode<CreatedPosition>(name, query.pageToken, 'pageToken');
    const size = pageSize(query.limit);
    const slice = { after, offset: query.offset ?? 0, limit: size + 1 };
    const filter = { folded: foldName(query.search), lastSeenBefore };
    const rows = await lists.list(organizationId, filter, slice);
    const page = pageOf(rows, size, ({ createdAt, id }) => ({ createdAt, id }));
    const total = await lists.total(organizationId, filter);
    return { devices: page.items, total, nextPageToken: page.next ? this.options.cursors.encode(name, page.next) : '' };
  }

  /**
   * Changes the given fields; where none is given, the device stays as it is. With the reach of a limited key it stays inside. Throws
   * `device_not_found`, `changed_meanwhile`, `scope_missing`, and what create throws.
   */
  async update(organizationId: string, id: string, change: DeviceChange, etag: string | undefined, reach?: DeviceReach): Promise<Device> {
    return await this.work.transaction(async (repos, db) => {
      const device = await repos.devices.lock(organizationId, id, reach);
      checkEtag('device', device.revision, etag);
      if (Object.values(change).every((value) => value === undefined)) return device;
      const now = this.options.clock.now();
      const { images } = change;
      await this.rebind({ repos, db, device, now, reach }, change.physicalDevice, images ? await repos.images.check(organizationId, images, reach) : []);
      if (images) await repos.images.set(organizationId, id, images, now);
      const dataSendingInterval = change.dataSendingInterval === undefined ? device.dataSendingInterval : (change.dataSendingInterval ?? undefined);
      await repos.devices.update(organizationId, id, { name: change.name ?? device.name, dataSendingInterval }, now);
      return await repos.devices.get(organizationId, id);
    });
  }

  /** Deletes a device with its binding, sensors, mappings and commands, and takes its pictures from it. Throws `device_not_found`, `changed_meanwhile`. */
  async delete(organizationId: string, id: string, etag: string | undefined, reach?: DeviceReach): Promise<void> {
    await this.work.transaction(async (repos, db) => {
      const device = await repos.devices.lock(organizationId, id, reach);
      checkEtag('device', device.revision, etag);
      await this.options.hooks.onDeviceDeleted(db, organizationId, id);
      await repos.images.remove(organizationId, id, this.options.clock.now());
      await repos.devices.delete(organizationId, device);
    });
  }

  /** Deletes at most `most` devices of an organization that goes, each by itself; how many. */
  async removeSome(organizationId: string, most: number): Promise<number> {
    const ids = await this.work.repos.devices.oldest(organizationId, most);
    for (const id of ids) {
      await this.delete(organizationId, id, undefined).catch((error: unknown) => {
        if (!(error instanceof DomainError && error.kind === 'not_found')) throw error; // somebody was faster
      });
    }
    return ids.length;
  }

  /** How many devices are bound to each of these connections; those with none are left out. */
  countByConnection(organizationId: string, connectionIds: readonly string[]): Promise<Map<string, number>> {
    return this.work.repos.counters.boundTo(organizationId, connectionIds);
  }

  /** Binds (null: unbinds, undefined: does not). Throws, together with what is `wrong` already, what is wrong with the binding. */
  private async rebind(update: DeviceUpdate, patch: BindingPatch | null | undefined, wrong: readonly Violation[]): Promise<void> {
    const { repos, device, now, reach } = update;
    const { organizationId, physicalDevice } = device;
    const binding = await together(wrong, async () => {
      if (!patch) return patch;
      const wanted = patchedBinding(physicalDevice, patch);
      return await checkedBinding(repos, organizationId, wanted, now, mayBindTo(reach, device, wanted.connectionId));
    });
    if (binding) await this.bind(update, binding);
    else if (binding === null) await this.unbind(update);
  }

  private async bind({ repos, db, device, now, reach }: DeviceUpdate, wanted: BindingRecord): Promise<void> {
    const { id, organizationId, physicalDevice } = device;
    if (isSamePhysicalDevice(physicalDevice, wanted)) return await repos.bindings.setConfiguration(organizationId, id, wanted.configuration, now);
    if (reach && !reach.connectionIds.has(wanted.connectionId)) throw rebindingLeavesReach();
    if (physicalDevice) {
      await repos.bindings.delete(organizationId, id, physicalDevice.connectionId);
      await this.options.hooks.onBindingChanged(db, organizationId, id);
    }
    return await repos.bindings.create(organizationId, id, wanted); // the mappings stay: they belong to the digital device
  }

  private async unbind({ repos, db, device, reach }: DeviceUpdate): Promise<void> {
    if (!device.physicalDevice) return;
    if (reach && !reach.ids.has(device.id)) throw unbindingLeavesReach();
    await repos.sensors.setMappings(device.organizationId, device.id, []);
    await repos.bindings.delete(device.organizationId, device.id, device.physicalDevice.connectionId);
    await this.options.hooks.onBindingChanged(db, device.organizationId, device.id);
  }
}

/** What the work gives, if nothing is wrong; else all that is: what was found before, and what the work finds. */
async function together<T>(found: readonly Violation[], work: () => Promise<T>): Promise<T> {
  const result = await work().catch((error: unknown) => {
    throw error instanceof DomainError && error.reason === 'validation_failed' ? validationFailed([...error.violations, ...found]) : error;
  });
  throwIfAny(found);
  return result;
}
