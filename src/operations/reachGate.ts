import type { Database } from '../database';
import { DeviceReachRepository, missingDevices, SensorRepository } from '../devices';
import { notFound } from '../kernel/errors';
import { isId } from '../kernel/ids';
import type { Principal } from '../kernel/principal';
import type { DeviceReach, Reach } from '../kernel/reach';
import { mediaNotFound } from '../media';

/** The first of some things that lies outside a reach or is not there at all; undefined: none. The ids are such as can be. */
type Outside<Limits> = (organizationId: string, reach: Limits, ids: readonly string[]) => Promise<string | undefined>;

/** What the gate asks the rooms. */
export interface ReachQueries {
  readonly devices: Outside<DeviceReach>;
  /** Those of the devices that are not there. */
  readonly missingDevices: (organizationId: string, ids: readonly string[]) => Promise<readonly string[]>;
  readonly sensors: Outside<DeviceReach>;
  readonly media: Outside<DeviceReach>;
  readonly executions: Outside<Reach>;
}

/** Things that a request names, as the edge tells them. */
interface Named {
  readonly thing: 'device' | 'command' | 'execution' | 'connection' | 'sensor' | 'media';
  readonly ids: readonly string[];
}

/** One look at what a limited key names. */
interface Look {
  readonly organizationId: string;
  readonly reach: Reach;
  readonly ids: readonly string[];
  /** All that the request names. */
  readonly named: readonly Named[];
}

/**
 * Lets a limited key pass to what lies inside its reach. What lies outside, and what is not there, is refused alike and in the words of the
 * rooms, so that nobody learns which of the two it is.
 */
export class ReachGate {
  constructor(private readonly queries: ReachQueries) {}

  /** Throws `device_not_found`, `command_not_found`, `execution_not_found`, `connection_not_found`, `sensor_not_found`, `media_not_found`. */
  async pass({ organizationId, reach }: Principal, named: readonly Named[]): Promise<void> {
    if (!reach) return;
    for (const { thing, ids } of named) await this.look(thing, { organizationId, reach, ids, named });
  }

  private async look(thing: Named['thing'], look: Look): Promise<void> {
    const { devices } = look.reach;
    if (thing === 'execution') await refuse(look, this.queries.executions, look.reach, (id) => notFound('execution', id));
    else if (thing === 'command') await this.lookAtCommands(look);
    else if (!devices) return; // the service says what is not there
    else if (thing === 'device') await refuse(look, this.queries.devices, devices, (id) => notFound('device', id));
    else if (thing === 'sensor') await refuse(look, this.queries.sensors, devices, (id) => notFound('sensor', id));
    else if (thing === 'media') await refuse(look, this.queries.media, devices, mediaNotFound);
    else this.lookAtConnections(look, devices);
  }

  /** The command is one of the device that the request names, or the service says that it is not: so it lies where its device does. */
  private async lookAtCommands({ organizationId, reach: { commands }, ids, named }: Look): Promise<void> {
    const outside = commands && ids.find((id) => !commands.has(id));
    if (outside === undefined) return;
    // Where the device is not there either, the service says that first.
    for (const { thing, ids: of } of named) if (thing === 'device') await refuse({ organizationId, ids: of }, async (_, __, asked) => (await this.queries.missingDevices(organizationId, asked))[0], undefined, (id) => notFound('device', id));
    throw notFound('command', outside);
  }

  private lookAtConnections({ ids }: Look, { connectionIds }: DeviceReach): void {
    const outside = ids.find((id) => !connectionIds.has(id));
    if (outside !== undefined) throw notFound('connection', outside);
  }
}

/** What the gate asks, as the rooms answer it. */
export function reachQueries(database: Database, services: Pick<ReachQueries, 'media' | 'executions'>): ReachQueries {
  const devices = new DeviceReachRepository(database.db);
  const sensors = new SensorRepository(database.db);
  return {
    devices: async (...asked) => await devices.outside(...asked),
    missingDevices: missingDevices(database),
    sensors: async (...asked) => await sensors.sensorsOutside(...asked),
    ...services,
  };
}

async function refuse<Limits>({ organizationId, ids }: Pick<Look, 'organizationId' | 'ids'>, find: Outside<Limits>, reach: Limits, asUnknown: (id: string) => Error): Promise<void> {
  const possible = ids.filter(isId);
  const outside = possible.length < ids.length ? ids.find((id) => !isId(id)) : await find(organizationId, reach, possible);
  if (outside !== undefined) throw asUnknown(outside);
}
