import { ConnectionRepository } from '../connections';
import { type Database, type Db, IdsRepository } from '../database';
import type { DeviceReach } from '../kernel/reach';
import { ImageRepository } from '../media';
import { ProfileIdRepository } from '../profiles';
import { SensorTemplateRepository } from '../sensorTemplates';
import { BindingRepository } from './bindingRepository';
import { DeviceCounterRepository } from './deviceCounterRepository';
import { DeviceListRepository } from './deviceListRepository';
import { DeviceRepository } from './deviceRepository';
import { ReachedDeviceListRepository } from './reachedDeviceListRepository';
import { SensorRepository } from './sensorRepository';

/** What the services of this room read and write, bound to one connection or transaction. */
export interface DeviceRepositories {
  readonly devices: DeviceRepository;
  readonly lists: DeviceListRepository;
  /** The lists that a limited key sees. */
  readonly reachedLists: (reach: DeviceReach) => ReachedDeviceListRepository;
  readonly counters: DeviceCounterRepository;
  readonly bindings: BindingRepository;
  readonly sensors: SensorRepository;
  readonly images: ImageRepository;
  readonly connections: ConnectionRepository;
  readonly profiles: ProfileIdRepository;
  readonly templates: SensorTemplateRepository;
}

/** Binds them all; given to the unit of work. */
export function deviceRepositories(db: Db): DeviceRepositories {
  return {
    devices: new DeviceRepository(db),
    lists: new DeviceListRepository(db),
    reachedLists: (reach) => new ReachedDeviceListRepository(db, reach),
    counters: new DeviceCounterRepository(db),
    bindings: new BindingRepository(db),
    sensors: new SensorRepository(db),
    images: new ImageRepository(db),
    connections: new ConnectionRepository(db),
    profiles: new ProfileIdRepository(db),
    templates: new SensorTemplateRepository(db),
  };
}

/** How to ask which of some ids are no devices of an organization. */
export function missingDevices(database: Database): (organizationId: string, ids: readonly string[]) => Promise<string[]> {
  const devices = new IdsRepository(database.db, 'digital_devices');
  return async (organizationId, ids) => await devices.missing(organizationId, ids);
}
