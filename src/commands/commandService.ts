import { UnitOfWork, type Database } from '../database';
import { DeviceRepository, type Device } from '../devices';
import type { Clock } from '../kernel/clock';
import { notFound, throwIfAny, type Violation } from '../kernel/errors';
import { checkEtag } from '../kernel/etags';
import { isId, newId } from '../kernel/ids';
import { pageOf, pageSize, type CreatedPosition, type Cursors } from '../kernel/pages';
import type { DeviceReach } from '../kernel/reach';
import { CodecRepository } from '../profiles';
import { commandLimitReached, MOST_COMMANDS, queryCommandInUse, type Command, type CommandDefinition } from './command';
import { CommandRepository } from './commandRepository';
import { findEncoder } from './profileEncoder';

/** What the room needs of the house. */
export interface CommandOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly cursors: Cursors;
}

/** What to list; an empty token is none. */
export interface CommandQuery {
  readonly pageSize?: number | undefined;
  readonly pageToken: string;
}

/** One page of commands; `nextPageToken` is empty on the last. */
export interface CommandPage {
  readonly commands: readonly Command[];
  readonly nextPageToken: string;
}

interface CommandRepositories {
  readonly commands: CommandRepository;
  readonly codecs: CodecRepository;
  readonly devices: DeviceRepository;
}

/** What a definition refers to. */
export type CommandReferences = Pick<CommandDefinition, 'expectedSensorStates' | 'queryCommandId' | 'customEncoder' | 'encoderProfileId'>;

/** Commands of devices. Assumes that the field rules of the proto and checkDefinition hold. With the `reach` of a limited key its device has to lie inside. */
export class CommandService {
  private readonly work: UnitOfWork<CommandRepositories>;

  constructor(private readonly options: CommandOptions) {
    this.work = new UnitOfWork(options.database, (db) => ({ commands: new CommandRepository(db), codecs: new CodecRepository(db), devices: new DeviceRepository(db) }));
  }

  /** Adds a command to a device; without an encoder of its own it gets that of the profile that it names. Throws `device_not_found`, `validation_failed`, `name_taken`, `command_limit_reached`. */
  async create(organizationId: string, deviceId: string, definition: CommandDefinition, reach?: DeviceReach): Promise<Command> {
    const now = this.options.clock.now();
    const id = newId();
    return await this.work.transaction(async (repos) => {
      const { commands, devices } = repos;
      const { customEncoder, violations } = await resolve(repos, await devices.lock(organizationId, deviceId, reach), id, definition);
      throwIfAny(violations);
      const command: Command = { ...definition, customEncoder, id, organizationId, deviceId, revision: 1, createdAt: now, updatedAt: now };
      if ((await commands.count(organizationId, deviceId)) >= MOST_COMMANDS) throw commandLimitReached();
      await commands.create(organizationId, command);
      return command;
    });
  }

  /** Names what a definition refers to and its device, or the installation, does not have; nothing of a device that is not there. `id`: of the command to replace; undefined: it is a new one. */
  async checkReferences(organizationId: string, deviceId: string, id: string | undefined, definition: CommandReferences): Promise<Violation[]> {
    const { commands, devices } = this.work.repos;
    const device = isId(deviceId) ? await devices.find(organizationId, deviceId) : undefined;
    if (!device) return [];
    const replaced = id !== undefined && isId(id) ? await commands.find(organizationId, deviceId, id) : undefined;
    return (await resolve(this.work.repos, device, id, definition, replaced)).violations;
  }

  /** Throws `device_not_found`, `command_not_found`. */
  async get(organizationId: string, deviceId: string, id: string): Promise<Command> {
    const { commands, devices } = this.work.repos;
    const command = await commands.find(organizationId, deviceId, id);
    if (command) return command;
    await devices.get(organizationId, deviceId);
    throw notFound('command', id);
  }

  /** Newest created first; `inside`: only these, undefined: all. Throws `device_not_found`, and `validation_failed` for a token that this list did not give out. */
  async list(organizationId: string, deviceId: string, query: CommandQuery, inside?: ReadonlySet<string>): Promise<CommandPage> {
    const name = [organizationId, 'commands', deviceId];
    const after = this.options.cursors.decode<CreatedPosition>(name, query.pageToken, 'pageToken');
    const { commands, devices } = this.work.repos;
    await devices.get(organizationId, deviceId);
    const size = pageSize(query.pageSize);
    const rows = await commands.list(organizationId, deviceId, after, size + 1, inside);
    const page = pageOf(rows, size, ({ createdAt, id }) => ({ createdAt, id }));
    return { commands: page.items, nextPageToken: page.next ? this.options.cursors.encode(name, page.next) : '' };
  }

  /**
   * Replaces the whole definition; without an encoder of its own it gets the one that the profile that it names has now. Executions in flight
   * keep what they were submitted with.
   * Throws `device_not_found`, `command_not_found`, `validation_failed`, `name_taken`, `changed_meanwhile`.
   */
  async update(organizationId: string, deviceId: string, id: string, definition: CommandDefinition, etag: string | undefined, reach?: DeviceReach): Promise<Command> {
    return await this.work.transaction(async (repos) => {
      const { commands, devices } = repos;
      const device = await devices.lock(organizationId, deviceId, reach);
      const old = await commands.get(organizationId, deviceId, id);
      checkEtag('command', old.revision, etag);
      const { customEncoder, violations } = await resolve(repos, device, id, definition, old);
      throwIfAny(violations);
      const command: Command = { ...definition, customEncoder, id, organizationId, deviceId, revision: old.revision + 1, createdAt: old.createdAt, updatedAt: this.options.clock.now() };
      await commands.update(organizationId, command);
      return command;
    });
  }

  /** Throws `device_not_found`, `command_not_found`, `changed_meanwhile`, `query_command_in_use`. */
  async delete(organizationId: string, deviceId: string, id: string, etag: string | undefined, reach?: DeviceReach): Promise<void> {
    await this.work.transaction(async ({ commands, devices }) => {
      await devices.lock(organizationId, deviceId, reach);
      const command = await commands.get(organizationId, deviceId, id);
      checkEtag('command', command.revision, etag);
      const usedBy = await commands.namesOfQueriers(organizationId, deviceId, id);
      if (usedBy.length > 0) throw queryCommandInUse(id, usedBy);
      await commands.delete(organizationId, deviceId, id);
    });
  }
}

/** What a definition refers to, as far as a command holds it. Only good if there are no violations. */
interface Resolved {
  readonly customEncoder: string | undefined;
  readonly violations: Violation[];
}

/** Looks up what a definition refers to, and names what is not there. `id`: of the command that it is for; `replaced`: that command, if it is there already. */
async function resolve({ commands, codecs }: CommandRepositories, device: Device, id: string | undefined, definition: CommandReferences, replaced?: Command): Promise<Resolved> {
  const violations = await referenceViolations(commands, device, id, definition);
  const { script, problem } = await findEncoder(codecs, definition, replaced);
  const ofProfile = problem === undefined ? [] : [{ field: 'command.encoderProfileId', description: problem }];
  return { customEncoder: script, violations: [...violations, ...ofProfile] };
}

/** What a definition refers to must be of the same device. */
async function referenceViolations(commands: CommandRepository, device: Device, id: string | undefined, definition: CommandReferences): Promise<Violation[]> {
  const own = new Set(device.sensors.map((sensor) => sensor.id));
  const violations = definition.expectedSensorStates.flatMap(({ sensorId }, at) =>
    own.has(sensorId) ? [] : [{ field: `command.expectedSensorStates[${at}].sensorId`, description: 'is not a sensor of this device; give the id of one that it has' }],
  );
  const { queryCommandId } = definition;
  if (queryCommandId === undefined) return violations;
  if (queryCommandId === id) violations.push({ field: 'command.queryCommandId', description: 'is the command itself; give another command of this device' });
  else if (!isId(queryCommandId) || !(await commands.find(device.organizationId, device.id, queryCommandId))) {
    violations.push({ field: 'command.queryCommandId', description: 'is not a command of this device; give the id of one that it has' });
  }
  return violations;
}
