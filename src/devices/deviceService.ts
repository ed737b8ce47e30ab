import { normalizeForSearch, UnitOfWork, type Database, type Db } from '../database';
import type { Clock } from '../kernel/clock';
import { DomainError, throwIfAny, validationFailed, type Violation } from '../kernel/errors';
import { checkEtag } from '../kernel/etags';
import { newId } from '../kernel/ids';
import { getPage, getPageSize, type CreatedPosition, type Cursors } from '../kernel/pages';
import type { DeviceScope } from '../kernel/resourceScope';
import type { ImageInput } from '../media';
import {
  validateBinding,
  isSamePhysicalDevice,
  canBindTo,
  applyBindingPatch,
  rebindNotAllowed,
  unbindLosesAccess,
  type BindingInput,
  type BindingPatch,
} from './binding';
import type { BindingRecord } from './bindingRepository';
import type { DataSendingInterval, Device, ListedDevice } from './device';
import type { DeviceHooks } from './deviceHooks';
import { DeviceCache } from './deviceCache';
import { createDeviceRepositories, type DeviceRepositories } from './deviceRepositories';

/** The device to create. The validation of the request has trimmed the name. */
export interface NewDevice {
  readonly name: string;
  readonly physicalDevice: BindingInput | undefined;
  readonly images?: readonly ImageInput[] | undefined;
}

/** Changes to a device: undefined leaves a field unchanged, null removes its value. */
export interface DeviceChange {
  readonly name: string | undefined;
  readonly physicalDevice: BindingPatch | null | undefined;
  readonly dataSendingInterval: DataSendingInterval | null | undefined;
  /** The whole new list of images. */
  readonly images?: readonly ImageInput[] | undefined;
}

/** A list query. An empty search or token means none; offset and token exclude each other. */
export interface DeviceQuery {
  readonly limit: number | undefined;
  readonly offset: number | undefined;
  readonly search: string;
  readonly pageToken: string;
  /** Unix milliseconds. Only devices last seen before it, or never seen and created before it. */
  readonly lastSeenBefore: number | undefined;
}

/** One page of devices. `total` counts the devices of all pages; `nextPageToken` is empty on the last page. */
export interface DevicePage {
  readonly devices: readonly ListedDevice[];
  readonly total: number;
  readonly nextPageToken: string;
}

/** Dependencies of the module. */
export interface DeviceOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly cursors: Cursors;
  readonly hooks: DeviceHooks;
}

/** An update of a locked device, inside its transaction. */
interface DeviceUpdate {
  readonly repos: DeviceRepositories;
  readonly db: Db;
  readonly device: Device;
  readonly now: number;
  /** The device scope of the calling key; undefined: not restricted. */
  readonly deviceScope: DeviceScope | undefined;
}

/** Manages digital devices and their bindings. Assumes that the field rules of the proto are already checked. */
export class DeviceService {
  private readonly work: UnitOfWork<DeviceRepositories>;
  /** Reads devices. */
  readonly cache: DeviceCache;

  constructor(private readonly options: DeviceOptions) {
    this.work = new UnitOfWork(options.database, createDeviceRepositories);
    this.cache = new DeviceCache(this.work.repos.devices);
  }

  /**
   * Creates a device and binds it if a physical device is set. Throws `connection_not_found`,
   * `physical_device_already_bound`, `validation_failed`.
   */
  async create(organizationId: string, device: NewDevice): Promise<Device> {
    const id = newId();
    const now = this.options.clock.now();
    const { name, physicalDevice, images = [] } = device;
    return await this.work.transaction(async (repos) => {
      const imageViolations = await repos.images.check(organizationId, images);
      const binding = await throwViolationsTogether(
        imageViolations,
        async () => physicalDevice && (await validateBinding(repos, organizationId, physicalDevice, now)),
      );
      await repos.devices.create(organizationId, { id, name, createdAt: now });
      if (binding) await repos.bindings.create(organizationId, id, binding);
      if (images.length > 0) await repos.images.set(organizationId, id, images, now);
      return await repos.devices.get(organizationId, id);
    });
  }

  /** Reports images that the organization does not have, or that are outside the scope of a restricted key. */
  checkImages(organizationId: string, images: readonly ImageInput[], deviceScope?: DeviceScope): Promise<Violation[]> {
    return this.work.repos.images.check(organizationId, images, deviceScope);
  }

  /**
   * Lists devices, newest first; with `deviceScope` only those in the scope of a restricted key. Throws
   * `validation_failed` for a token of another list.
   */
  async list(organizationId: string, query: DeviceQuery, deviceScope?: DeviceScope): Promise<DevicePage> {
    const { repos } = this.work;
    const lists = deviceScope ? repos.scopedLists(deviceScope) : repos.lists;
    const { lastSeenBefore } = query;
    const listKey = [
      organizationId,
      'devices',
      query.search,
      ...(lastSeenBefore === undefined ? [] : [String(lastSeenBefore)]),
    ];
    const after = this.options.cursors.decode<CreatedPosition>(listKey, query.pageToken, 'pageToken');
    const size = getPageSize(query.limit);
    // One extra row shows whether there is a next page.
    const slice = { after, offset: query.offset ?? 0, limit: size + 1 };
    const filter = { foldedSearch: normalizeForSearch(query.search), lastSeenBefore };
    const rows = await lists.list(organizationId, filter, slice);
    const page = getPage(rows, size, ({ createdAt, id }) => ({ createdAt, id }));
    const total = await lists.count(organizationId, filter);
    return {
      devices: page.items,
      total,
      nextPageToken: page.next ? this.options.cursors.encode(listKey, page.next) : '',
    };
  }

  /**
   * Changes the fields that are set; without any, the device stays unchanged. A restricted key cannot move the device
   * out of its scope. Throws `device_not_found`, `version_conflict`, `insufficient_scope`, and the errors of `create`.
   */
  async update(
    organizationId: string,
    id: string,
    change: DeviceChange,
    etag: string | undefined,
    deviceScope?: DeviceScope,
  ): Promise<Device> {
    return await this.work.transaction(async (repos, db) => {
      const device = await repos.devices.lock(organizationId, id, deviceScope);
      checkEtag('device', device.revision, etag);
      if (Object.values(change).every((value) => value === undefined)) return device;
      const now = this.options.clock.now();
      const { images } = change;
      await this.applyBindingChange(
        { repos, db, device, now, deviceScope },
        change.physicalDevice,
        images ? await repos.images.check(organizationId, images, deviceScope) : [],
      );
      if (images) await repos.images.set(organizationId, id, images, now);
      const dataSendingInterval =
        change.dataSendingInterval === undefined
          ? device.dataSendingInterval
          : (change.dataSendingInterval ?? undefined); // null removes it
      await repos.devices.update(organizationId, id, { name: change.name ?? device.name, dataSendingInterval }, now);
      return await repos.devices.get(organizationId, id);
    });
  }

  /**
   * Deletes a device with its binding, sensors, mappings and commands, and detaches its images. Returns the number of
   * dashboards that show it. Throws `device_not_found`, `version_conflict`.
   */
  async delete(
    organizationId: string,
    id: string,
    etag: string | undefined,
    deviceScope?: DeviceScope,
  ): Promise<number> {
    return await this.work.transaction(async (repos, db) => {
      const device = await repos.devices.lock(organizationId, id, deviceScope);
      checkEtag('device', device.revision, etag);
      const dashboardCount = await this.options.hooks.countDeviceDashboards(db, organizationId, id);
      await this.options.hooks.onDeviceDeleted(db, organizationId, id);
      await repos.images.remove(organizationId, id, this.options.clock.now());
      await repos.devices.delete(organizationId, device);
      return dashboardCount;
    });
  }

  /**
   * Deletes at most `max` devices of a deleted organization, each in its own transaction. Returns how many are gone,
   * including those that another call deleted at the same time; 0 when none is left.
   */
  async deleteBatch(organizationId: string, max: number): Promise<number> {
    const ids = await this.work.repos.devices.listOldestIds(organizationId, max);
    for (const id of ids) {
      await this.delete(organizationId, id, undefined).catch((error: unknown) => {
        if (!(error instanceof DomainError && error.kind === 'not_found')) throw error; // another call deleted it first
      });
    }
    return ids.length;
  }

  /** Counts the devices that are bound to each of these connections. Connections without devices are omitted. */
  countByConnection(organizationId: string, connectionIds: readonly string[]): Promise<Map<string, number>> {
    return this.work.repos.counters.countBound(organizationId, connectionIds);
  }

  /**
   * Binds the device (null: unbinds, undefined: no change). Throws the violations of the binding together with those
   * already in `earlierViolations`.
   */
  private async applyBindingChange(
    update: DeviceUpdate,
    patch: BindingPatch | null | undefined,
    earlierViolations: readonly Violation[],
  ): Promise<void> {
    const { repos, device, now, deviceScope } = update;
    const { organizationId, physicalDevice } = device;
    const binding = await throwViolationsTogether(earlierViolations, async () => {
      if (!patch) return patch;
      const wanted = applyBindingPatch(physicalDevice, patch);
      return await validateBinding(
        repos,
        organizationId,
        wanted,
        now,
        canBindTo(deviceScope, device, wanted.connectionId),
      );
    });
    if (binding) await this.bind(update, binding);
    else if (binding === null) await this.unbind(update);
  }

  /**
   * Binds the device to a physical device and removes its present binding. If that is the same physical device, only
   * changes the configuration. Throws `insufficient_scope` if the key does not name the connection of the new binding.
   */
  private async bind({ repos, db, device, now, deviceScope }: DeviceUpdate, newBinding: BindingRecord): Promise<void> {
    const { id, organizationId, physicalDevice } = device;
    if (isSamePhysicalDevice(physicalDevice, newBinding))
      return await repos.bindings.setConfiguration(organizationId, id, newBinding.configuration, now);
    if (deviceScope && !deviceScope.connectionIds.has(newBinding.connectionId)) throw rebindNotAllowed();
    if (physicalDevice) {
      await repos.bindings.delete(organizationId, id, physicalDevice.connectionId);
      await this.options.hooks.onBindingRemoved(db, organizationId, id);
    }
    // The mappings are retained: they belong to the digital device.
    return await repos.bindings.create(organizationId, id, newBinding);
  }

  /**
   * Removes the binding with its mappings, if there is one. Throws `insufficient_scope` if the key reaches the device
   * only through its binding.
   */
  private async unbind({ repos, db, device, deviceScope }: DeviceUpdate): Promise<void> {
    if (!device.physicalDevice) return;
    if (deviceScope && !deviceScope.ids.has(device.id)) throw unbindLosesAccess();
    await repos.sensors.setMappings(device.organizationId, device.id, []);
    await repos.bindings.delete(device.organizationId, device.id, device.physicalDevice.connectionId);
    await this.options.hooks.onBindingRemoved(db, device.organizationId, device.id);
  }
}

/**
 * Returns the result of the work if there are no violations. Otherwise throws the violations found before together with
 * those of the work.
 */
async function throwViolationsTogether<T>(
  earlierViolations: readonly Violation[],
  validate: () => Promise<T>,
): Promise<T> {
  const result = await validate().catch((error: unknown) => {
    throw error instanceof DomainError && error.reason === 'validation_failed'
      ? validationFailed([...error.violations, ...earlierViolations])
      : error;
  });
  throwIfAny(earlierViolations);
  return result;
}
