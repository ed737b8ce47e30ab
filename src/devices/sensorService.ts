import { UnitOfWork, type Db } from '../database';
import { notFound, throwIfAny, type Violation } from '../kernel/errors';
import { isId, newId } from '../kernel/ids';
import type { DeviceReach } from '../kernel/reach';
import { checkMappings, MOST_SENSORS, noPhysicalDevice, sensorInUse, type Device, type SensorMapping } from './device';
import { deviceRepositories, type DeviceRepositories } from './deviceRepositories';
import type { DeviceOptions } from './deviceService';
import { canonicalSourcePath } from './sourcePath';

/** A mapping to set; the path in any of its spellings. */
export type MappingInput = Pick<SensorMapping, 'sensorId' | 'sourcePath'>;

/** One change of a device's sensors, inside its transaction; nobody else changes the device meanwhile. */
interface SensorChange {
  readonly repos: DeviceRepositories;
  readonly db: Db;
  readonly device: Device;
  readonly now: number;
}

/** The device to change. */
interface Target {
  readonly organizationId: string;
  readonly deviceId: string;
  /** Of the key that asks; undefined: it is not limited. */
  readonly reach: DeviceReach | undefined;
}

/** The sensors of devices, and which value of an uplink goes to which. Every change counts as a change of the device. */
export class SensorService {
  private readonly work: UnitOfWork<DeviceRepositories>;

  constructor(private readonly options: Pick<DeviceOptions, 'database' | 'clock' | 'hooks'>) {
    this.work = new UnitOfWork(options.database, deviceRepositories);
  }

  /** Attaches one sensor per template, in this order. Throws `device_not_found`, `validation_failed`. */
  add(organizationId: string, deviceId: string, sensorTemplateIds: readonly string[], reach?: DeviceReach): Promise<Device> {
    return this.change({ organizationId, deviceId, reach }, async ({ repos, device, now }) => {
      throwIfAny(await wrongWithAdded(repos, organizationId, device, sensorTemplateIds));
      const sensors = sensorTemplateIds.map((sensorTemplateId) => ({ id: newId(), sensorTemplateId, createdAt: now, updatedAt: now }));
      await repos.sensors.add(organizationId, deviceId, sensors);
    });
  }

  /** What is wrong with sensors to attach, as far as the database tells; less of a device that is not there. */
  async checkAdded(organizationId: string, deviceId: string, sensorTemplateIds: readonly string[]): Promise<Violation[]> {
    return await wrongWithAdded(this.work.repos, organizationId, await this.findDevice(organizationId, deviceId), sensorTemplateIds);
  }

  /** Removes sensors with their mappings: all, or none. Throws `device_not_found`, `validation_failed`, `sensor_in_use`. */
  remove(organizationId: string, deviceId: string, sensorIds: readonly string[], reach?: DeviceReach): Promise<Device> {
    return this.change({ organizationId, deviceId, reach }, async ({ repos, db, device }) => {
      throwIfAny(foreignSensors(device, sensorIds, namedAt.removed));
      await this.throwIfInUse(db, organizationId, sensorIds);
      await repos.sensors.remove(organizationId, deviceId, sensorIds);
    });
  }

  /** Gives a sensor another template. Throws `device_not_found`, `sensor_not_found`, `validation_failed`, `sensor_in_use`. */
  setTemplate(organizationId: string, deviceId: string, sensorId: string, sensorTemplateId: string, reach?: DeviceReach): Promise<Device> {
    return this.change({ organizationId, deviceId, reach }, async ({ repos, db, device, now }) => {
      const sensor = device.sensors.find(({ id }) => id === sensorId);
      if (!sensor) throw notFound('sensor', sensorId);
      throwIfAny(await unknownTemplates(repos, organizationId, [sensorTemplateId], () => 'sensorTemplateId'));
      if (sensor.sensorTemplateId !== sensorTemplateId) await this.throwIfInUse(db, organizationId, [sensorId]);
      await repos.sensors.setTemplate(organizationId, deviceId, sensorId, sensorTemplateId, now);
    });
  }

  /** Replaces all mappings of a device; a sensor that stays mapped keeps the id of its mapping. Throws `device_not_found`, `validation_failed`, `no_physical_device`. */
  setMappings(organizationId: string, deviceId: string, mappings: readonly MappingInput[], reach?: DeviceReach): Promise<Device> {
    return this.change({ organizationId, deviceId, reach }, async ({ repos, device, now }) => {
      if (!device.physicalDevice) throw noPhysicalDevice(deviceId);
      const sensorIds = mappings.map(({ sensorId }) => sensorId);
      throwIfAny([...checkMappings(mappings), ...foreignSensors(device, sensorIds, namedAt.mapped)]);
      const before = new Map(device.physicalDevice.sensorMappings.map((mapping) => [mapping.sensorId, mapping]));
      const after = mappings.map(({ sensorId, sourcePath }): SensorMapping => {
        const { id, createdAt } = before.get(sensorId) ?? { id: newId(), createdAt: now };
        return { id, sensorId, sourcePath: canonicalSourcePath(sourcePath), createdAt, updatedAt: now };
      });
      await repos.sensors.setMappings(organizationId, deviceId, after);
    });
  }

  /** Names those of the sensors, to remove or to map, that the device does not have; none of a device that is not there. */
  async checkOwn(organizationId: string, deviceId: string, sensorIds: readonly string[], use: keyof typeof namedAt): Promise<Violation[]> {
    const device = await this.findDevice(organizationId, deviceId);
    return device ? foreignSensors(device, sensorIds, namedAt[use]) : [];
  }

  /** How many sensors of the organization have this template. */
  countByTemplate(organizationId: string, sensorTemplateId: string): Promise<number> {
    return this.work.repos.sensors.countByTemplate(organizationId, sensorTemplateId);
  }

  private async findDevice(organizationId: string, id: string): Promise<Device | undefined> {
    return isId(id) ? await this.work.repos.devices.find(organizationId, id) : undefined;
  }

  private change({ organizationId, deviceId, reach }: Target, make: (change: SensorChange) => Promise<void>): Promise<Device> {
    return this.work.transaction(async (repos, db) => {
      const now = this.options.clock.now();
      await make({ repos, db, device: await repos.devices.lock(organizationId, deviceId, reach), now });
      await repos.devices.touch(organizationId, deviceId, now);
      return await repos.devices.get(organizationId, deviceId);
    });
  }

  private async throwIfInUse(db: Db, organizationId: string, sensorIds: readonly string[]): Promise<void> {
    const uses = await this.options.hooks.sensorsInUse(db, organizationId, sensorIds);
    if (uses.length > 0) throw sensorInUse(uses);
  }
}

// How a request names the sensors that it removes, and those that it maps.
const namedAt = { removed: (at: number) => `sensorIds[${at}]`, mapped: (at: number) => `mappings[${at}].sensorId` };

async function wrongWithAdded(repos: DeviceRepositories, organizationId: string, device: Device | undefined, sensorTemplateIds: readonly string[]): Promise<Violation[]> {
  const unknown = await unknownTemplates(repos, organizationId, sensorTemplateIds, (at) => `sensorTemplateIds[${at}]`);
  return device ? [...tooManySensors(device, sensorTemplateIds.length), ...unknown] : unknown;
}

function tooManySensors(device: Device, added: number): Violation[] {
  const count = device.sensors.length + added;
  return count > MOST_SENSORS ? [{ field: 'sensorTemplateIds', description: `would make ${count} sensors; a device holds at most ${MOST_SENSORS}` }] : [];
}

function foreignSensors(device: Device, sensorIds: readonly string[], field: (at: number) => string): Violation[] {
  const own = new Set(device.sensors.map(({ id }) => id));
  return sensorIds.flatMap((id, at) => (own.has(id) ? [] : [{ field: field(at), description: `${JSON.stringify(id)} is no sensor of this device; get the device to see its sensors` }]));
}

async function unknownTemplates(repos: DeviceRepositories, organizationId: string, ids: readonly string[], field: (at: number) => string): Promise<Violation[]> {
  const known = new Set((await repos.templates.findTemplates(organizationId, [...new Set(ids)].filter(isId))).map(({ id }) => id));
  return ids.flatMap((id, at) => (known.has(id) ? [] : [{ field: field(at), description: `${JSON.stringify(id)} is no sensor template that this organization sees; list the sensor templates to choose one` }]));
}
