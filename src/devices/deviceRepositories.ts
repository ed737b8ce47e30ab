import { ConnectionRepository } from '../connections';
import { type Database, type Db, IdsRepository } from '../database';
import type { DeviceScope } from '../kernel/resourceScope';
import { ImageRepository } from '../media';
import { ProfileIdRepository } from '../profiles';
import { SensorTemplateRepository } from '../sensorTemplates';
import { BindingRepository } from './bindingRepository';
import { DeviceCounterRepository } from './deviceCounterRepository';
import { DeviceListRepository } from './deviceListRepository';
import { DeviceRepository } from './deviceRepository';
import { ScopedDeviceListRepository } from './scopedDeviceListRepository';
import { SensorRepository } from './sensorRepository';

/** The repositories of this module, bound to one connection or transaction. */
export interface DeviceRepositories {
  readonly devices: DeviceRepository;
  readonly lists: DeviceListRepository;
  /** The lists as a restricted key sees them. */
  readonly scopedLists: (deviceScope: DeviceScope) => ScopedDeviceListRepository;
  readonly counters: DeviceCounterRepository;
  readonly bindings: BindingRepository;
  readonly sensors: SensorRepository;
  readonly images: ImageRepository;
  readonly connections: ConnectionRepository;
  readonly profiles: ProfileIdRepository;
  readonly templates: SensorTemplateRepository;
}

/** Creates the repositories of a unit of work. */
export function createDeviceRepositories(db: Db): DeviceRepositories {
  return {
    devices: new DeviceRepository(db),
    lists: new DeviceListRepository(db),
    scopedLists: (deviceScope) => new ScopedDeviceListRepository(db, deviceScope),
    counters: new DeviceCounterRepository(db),
    bindings: new BindingRepository(db),
    sensors: new SensorRepository(db),
    images: new ImageRepository(db),
    connections: new ConnectionRepository(db),
    profiles: new ProfileIdRepository(db),
    templates: new SensorTemplateRepository(db),
  };
}

/** Creates a query for the ids that are not devices of an organization. */
export function createMissingDevicesQuery(
  database: Database,
): (organizationId: string, ids: readonly string[]) => Promise<string[]> {
  const devices = new IdsRepository(database.db, 'digital_devices');
  return async (organizationId, ids) => await devices.findMissing(organizationId, ids);
}
