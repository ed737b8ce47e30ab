import { UnitOfWork, type Db } from '../database';
import { notFound, throwIfAny, type Violation } from '../kernel/errors';
import { isId, newId } from '../kernel/ids';
import type { DeviceScope } from '../kernel/resourceScope';
import {
  checkMappings,
  MAX_SENSORS_PER_DEVICE,
  noPhysicalDevice,
  sensorInUse,
  type Device,
  type SensorMapping,
} from './device';
import { createDeviceRepositories, type DeviceRepositories } from './deviceRepositories';
import type { DeviceOptions } from './deviceService';
import { normalizeSourcePath } from './sourcePath';

/** A mapping to set. The path may have any spelling. */
type MappingInput = Pick<SensorMapping, 'sensorId' | 'sourcePath'>;

/** A change of the sensors of a locked device, inside its transaction. */
interface SensorChange {
  readonly repos: DeviceRepositories;
  readonly db: Db;
  readonly device: Device;
  readonly now: number;
}

/** The device to change. */
interface SensorTarget {
  readonly organizationId: string;
  readonly deviceId: string;
  /** The resource scope of the calling key; undefined: not limited. */
  readonly deviceScope: DeviceScope | undefined;
}

/**
 * Manages the sensors of devices and the mappings from uplink values to sensors. Every change increments the revision
 * of the device.
 */
export class SensorService {
  private readonly work: UnitOfWork<DeviceRepositories>;

  constructor(private readonly options: Pick<DeviceOptions, 'database' | 'clock' | 'hooks'>) {
    this.work = new UnitOfWork(options.database, createDeviceRepositories);
  }

  /** Attaches one sensor per template, in this order. Throws `device_not_found`, `validation_failed`. */
  add(
    organizationId: string,
    deviceId: string,
    sensorTemplateIds: readonly string[],
    deviceScope?: DeviceScope,
  ): Promise<Device> {
    return this.changeDevice({ organizationId, deviceId, deviceScope }, async ({ repos, device, now }) => {
      throwIfAny(await checkAddedSensors(repos, organizationId, device, sensorTemplateIds));
      const sensors = sensorTemplateIds.map((sensorTemplateId) => ({
        id: newId(),
        sensorTemplateId,
        createdAt: now,
        updatedAt: now,
      }));
      await repos.sensors.add(organizationId, deviceId, sensors);
    });
  }

  /**
   * Validates the sensors to attach against the database. Skips the checks that need the device if it does not exist.
   */
  async checkAdded(
    organizationId: string,
    deviceId: string,
    sensorTemplateIds: readonly string[],
  ): Promise<Violation[]> {
    return await checkAddedSensors(
      this.work.repos,
      organizationId,
      await this.findDevice(organizationId, deviceId),
      sensorTemplateIds,
    );
  }

  /**
   * Removes sensors with their mappings, all or none. Also returns the number of dashboards that show one of them.
   * Throws `device_not_found`, `validation_failed`, `sensor_in_use`.
   */
  async remove(
    organizationId: string,
    deviceId: string,
    sensorIds: readonly string[],
    deviceScope?: DeviceScope,
  ): Promise<{ device: Device; dashboardCount: number }> {
    let dashboardCount = 0;
    const device = await this.changeDevice({ organizationId, deviceId, deviceScope }, async (change) => {
      throwIfAny(checkSensorsBelongToDevice(change.device, sensorIds, FIELD_PATHS.removed));
      await this.assertNotInUse(change.db, organizationId, sensorIds);
      dashboardCount = await this.options.hooks.countSensorDashboards(change.db, organizationId, sensorIds);
      await change.repos.sensors.remove(organizationId, deviceId, sensorIds);
    });
    return { device, dashboardCount };
  }

  /**
   * Assigns another template to a sensor. Throws `device_not_found`, `sensor_not_found`, `validation_failed`,
   * `sensor_in_use`.
   */
  setTemplate(
    organizationId: string,
    deviceId: string,
    sensorId: string,
    sensorTemplateId: string,
    deviceScope?: DeviceScope,
  ): Promise<Device> {
    return this.changeDevice({ organizationId, deviceId, deviceScope }, async ({ repos, db, device, now }) => {
      const sensor = device.sensors.find(({ id }) => id === sensorId);
      if (!sensor) throw notFound('sensor', sensorId);
      throwIfAny(await checkTemplatesExist(repos, organizationId, [sensorTemplateId], () => 'sensorTemplateId'));
      if (sensor.sensorTemplateId !== sensorTemplateId) await this.assertNotInUse(db, organizationId, [sensorId]);
      await repos.sensors.setTemplate(organizationId, deviceId, sensorId, sensorTemplateId, now);
    });
  }

  /**
   * Replaces all mappings of a device. A sensor that stays mapped retains the id of its mapping. Throws
   * `device_not_found`, `validation_failed`, `no_physical_device`.
   */
  setMappings(
    organizationId: string,
    deviceId: string,
    mappings: readonly MappingInput[],
    deviceScope?: DeviceScope,
  ): Promise<Device> {
    return this.changeDevice({ organizationId, deviceId, deviceScope }, async ({ repos, device, now }) => {
      if (!device.physicalDevice) throw noPhysicalDevice(deviceId);
      const sensorIds = mappings.map(({ sensorId }) => sensorId);
      throwIfAny([...checkMappings(mappings), ...checkSensorsBelongToDevice(device, sensorIds, FIELD_PATHS.mapped)]);
      const currentMappingBySensor = new Map(
        device.physicalDevice.sensorMappings.map((mapping) => [mapping.sensorId, mapping]),
      );
      const newMappings = mappings.map(({ sensorId, sourcePath }): SensorMapping => {
        const { id, createdAt } = currentMappingBySensor.get(sensorId) ?? { id: newId(), createdAt: now };
        return { id, sensorId, sourcePath: normalizeSourcePath(sourcePath), createdAt, updatedAt: now };
      });
      await repos.sensors.setMappings(organizationId, deviceId, newMappings);
    });
  }

  /**
   * Reports the sensors to remove or map that do not belong to the device. Reports none if the device does not exist.
   */
  async checkSensors(
    organizationId: string,
    deviceId: string,
    sensorIds: readonly string[],
    use: keyof typeof FIELD_PATHS,
  ): Promise<Violation[]> {
    const device = await this.findDevice(organizationId, deviceId);
    return device ? checkSensorsBelongToDevice(device, sensorIds, FIELD_PATHS[use]) : [];
  }

  /** Counts the sensors of the organization that use this template. */
  countByTemplate(organizationId: string, sensorTemplateId: string): Promise<number> {
    return this.work.repos.sensors.countByTemplate(organizationId, sensorTemplateId);
  }

  private async findDevice(organizationId: string, id: string): Promise<Device | undefined> {
    return isId(id) ? await this.work.repos.devices.find(organizationId, id) : undefined;
  }

  /**
   * Applies a change to the locked device in a transaction, increments its revision, and returns the changed device.
   */
  private changeDevice(
    { organizationId, deviceId, deviceScope }: SensorTarget,
    apply: (change: SensorChange) => Promise<void>,
  ): Promise<Device> {
    return this.work.transaction(async (repos, db) => {
      const now = this.options.clock.now();
      await apply({ repos, db, device: await repos.devices.lock(organizationId, deviceId, deviceScope), now });
      await repos.devices.incrementRevision(organizationId, deviceId, now);
      return await repos.devices.get(organizationId, deviceId);
    });
  }

  /** Throws `sensor_in_use` if a command expects a state of one of the sensors. */
  private async assertNotInUse(db: Db, organizationId: string, sensorIds: readonly string[]): Promise<void> {
    const uses = await this.options.hooks.findSensorUses(db, organizationId, sensorIds);
    if (uses.length > 0) throw sensorInUse(uses);
  }
}

// The field paths of the sensors to remove and to map.
const FIELD_PATHS = {
  removed: (index: number) => `sensorIds[${index}]`,
  mapped: (index: number) => `mappings[${index}].sensorId`,
};

/** Reports templates that do not exist, and too many sensors for the device if it exists. */
async function checkAddedSensors(
  repos: DeviceRepositories,
  organizationId: string,
  device: Device | undefined,
  sensorTemplateIds: readonly string[],
): Promise<Violation[]> {
  const unknown = await checkTemplatesExist(
    repos,
    organizationId,
    sensorTemplateIds,
    (index) => `sensorTemplateIds[${index}]`,
  );
  return device ? [...checkSensorCount(device, sensorTemplateIds.length), ...unknown] : unknown;
}

function checkSensorCount(device: Device, added: number): Violation[] {
  const count = device.sensors.length + added;
  return count > MAX_SENSORS_PER_DEVICE
    ? [
        {
          field: 'sensorTemplateIds',
          description: `would result in ${count} sensors: a device can have at most ${MAX_SENSORS_PER_DEVICE}`,
        },
      ]
    : [];
}

/** Reports the sensors that the device does not have. `formatField`: the path of the id at an index of the request. */
function checkSensorsBelongToDevice(
  device: Device,
  sensorIds: readonly string[],
  formatField: (index: number) => string,
): Violation[] {
  const ownIds = new Set(device.sensors.map(({ id }) => id));
  return sensorIds.flatMap((id, index) =>
    ownIds.has(id)
      ? []
      : [
          {
            field: formatField(index),
            description: `${JSON.stringify(id)} is not a sensor of this device; call GetDigitalDevice for its sensors`,
          },
        ],
  );
}

/**
 * Reports the templates that the organization does not see. `formatField`: the path of the id at an index of the
 * request.
 */
async function checkTemplatesExist(
  repos: DeviceRepositories,
  organizationId: string,
  ids: readonly string[],
  formatField: (index: number) => string,
): Promise<Violation[]> {
  const knownIds = new Set(
    (await repos.templates.findTemplates(organizationId, [...new Set(ids)].filter(isId))).map(({ id }) => id),
  );
  return ids.flatMap((id, index) =>
    knownIds.has(id)
      ? []
      : [
          {
            field: formatField(index),
            description: `${JSON.stringify(id)} is not a sensor template of this organization or of the system; call ListSensorTemplates for the valid ids`,
          },
        ],
  );
}
