import { ConnectionRepository } from '../connections';
import { UnitOfWork, type Database } from '../database';
import { DeviceRepository, type Device } from '../devices';
import type { Clock } from '../kernel/clock';
import { notFound, throwIfAny, type Violation } from '../kernel/errors';
import { checkEtag } from '../kernel/etags';
import { isId, newId } from '../kernel/ids';
import { getPage, getPageSize, type CreatedPosition, type Cursors } from '../kernel/pages';
import type { DeviceScope } from '../kernel/resourceScope';
import { CodecRepository } from '../profiles';
import {
  commandLimitReached,
  MAX_COMMANDS_PER_DEVICE,
  queryCommandInUse,
  type Command,
  type CommandDefinition,
} from './command';
import { CommandRepository } from './commandRepository';
import { type CommandWarning, listCommandWarnings, mayHaveWarnings } from './commandWarnings';
import { findEncoder } from './profileEncoder';

/** Dependencies of the module. */
interface CommandOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly cursors: Cursors;
}

/** A list query. An empty token means none. */
interface CommandQuery {
  readonly pageSize?: number | undefined;
  readonly pageToken: string;
}

/** One page of commands. `nextPageToken` is empty on the last page. */
export interface CommandPage {
  readonly commands: readonly Command[];
  readonly nextPageToken: string;
}

interface CommandRepositories {
  readonly commands: CommandRepository;
  readonly codecs: CodecRepository;
  readonly connections: ConnectionRepository;
  readonly devices: DeviceRepository;
}

/**
 * The references of a definition to other records, and its custom encoder, which decides whether the profile must
 * provide one (findEncoder).
 */
export type CommandReferences = Pick<
  CommandDefinition,
  'expectedSensorStates' | 'queryCommandId' | 'customEncoder' | 'encoderProfileId'
>;

/**
 * Manages the commands of devices. Assumes that the field rules of the proto and checkDefinition are already checked.
 * With the `deviceScope` of a restricted key, the device must be in that scope.
 */
export class CommandService {
  private readonly work: UnitOfWork<CommandRepositories>;

  constructor(private readonly options: CommandOptions) {
    this.work = new UnitOfWork(options.database, (db) => ({
      commands: new CommandRepository(db),
      codecs: new CodecRepository(db),
      connections: new ConnectionRepository(db),
      devices: new DeviceRepository(db),
    }));
  }

  /**
   * Adds a command to a device. Without `customEncoder`, the current encoder of the profile `encoderProfileId` is
   * copied into the command. Throws `device_not_found`, `validation_failed`, `name_taken`, `command_limit_reached`.
   */
  async create(
    organizationId: string,
    deviceId: string,
    definition: CommandDefinition,
    deviceScope?: DeviceScope,
  ): Promise<Command> {
    const now = this.options.clock.now();
    const id = newId();
    return await this.work.transaction(async (repos) => {
      const { commands, devices } = repos;
      const { customEncoder, violations } = await resolveReferences(
        repos,
        await devices.lock(organizationId, deviceId, deviceScope),
        id,
        definition,
      );
      throwIfAny(violations);
      const command: Command = {
        ...definition,
        customEncoder,
        id,
        organizationId,
        deviceId,
        revision: 1,
        createdAt: now,
        updatedAt: now,
      };
      if ((await commands.count(organizationId, deviceId)) >= MAX_COMMANDS_PER_DEVICE) throw commandLimitReached();
      await commands.create(organizationId, command);
      return command;
    });
  }

  /**
   * Reports references of a definition that do not exist in its device or the installation. Reports none if the device
   * does not exist. `id`: the command to replace; undefined for a new one.
   */
  async checkReferences(
    organizationId: string,
    deviceId: string,
    id: string | undefined,
    definition: CommandReferences,
  ): Promise<Violation[]> {
    const { commands, devices } = this.work.repos;
    const device = isId(deviceId) ? await devices.find(organizationId, deviceId) : undefined;
    if (!device) return [];
    const replaced = id !== undefined && isId(id) ? await commands.find(organizationId, deviceId, id) : undefined;
    return (await resolveReferences(this.work.repos, device, id, definition, replaced)).violations;
  }

  /** Lists what the verification of a stored command cannot prove on the current connection of its device. */
  async listWarnings(command: Command): Promise<CommandWarning[]> {
    if (!mayHaveWarnings(command)) return [];
    const { organizationId, deviceId, queryCommandId } = command;
    const { commands, connections, devices } = this.work.repos;
    const device = await devices.find(organizationId, deviceId);
    const connectionId = device?.physicalDevice?.connectionId;
    const connection = connectionId === undefined ? undefined : await connections.find(organizationId, connectionId);
    const query =
      queryCommandId === undefined ? undefined : await commands.find(organizationId, deviceId, queryCommandId);
    return listCommandWarnings(command, query, connection);
  }

  /** Throws `device_not_found`, `command_not_found`. */
  async get(organizationId: string, deviceId: string, id: string): Promise<Command> {
    const { commands, devices } = this.work.repos;
    const command = await commands.find(organizationId, deviceId, id);
    if (command) return command;
    await devices.get(organizationId, deviceId);
    throw notFound('command', id);
  }

  /**
   * Lists commands, newest first. `allowedIds`: lists only these; undefined: all. Throws `device_not_found`, and
   * `validation_failed` for a page token of another list.
   */
  async list(
    organizationId: string,
    deviceId: string,
    query: CommandQuery,
    allowedIds?: ReadonlySet<string>,
  ): Promise<CommandPage> {
    const listKey = [organizationId, 'commands', deviceId];
    const after = this.options.cursors.decode<CreatedPosition>(listKey, query.pageToken, 'pageToken');
    const { commands, devices } = this.work.repos;
    await devices.get(organizationId, deviceId);
    const size = getPageSize(query.pageSize);
    const rows = await commands.list(organizationId, deviceId, after, size + 1, allowedIds); // one more than the page
    const page = getPage(rows, size, ({ createdAt, id }) => ({ createdAt, id }));
    return { commands: page.items, nextPageToken: page.next ? this.options.cursors.encode(listKey, page.next) : '' };
  }

  /**
   * Replaces the whole definition. Without `customEncoder`, the current encoder of the profile `encoderProfileId` is
   * copied into the command. Executions in flight retain the definition that they were submitted with. Throws
   * `device_not_found`, `command_not_found`, `validation_failed`, `name_taken`, `version_conflict`.
   */
  async update(
    organizationId: string,
    deviceId: string,
    id: string,
    definition: CommandDefinition,
    etag: string | undefined,
    deviceScope?: DeviceScope,
  ): Promise<Command> {
    return await this.work.transaction(async (repos) => {
      const { commands, devices } = repos;
      const device = await devices.lock(organizationId, deviceId, deviceScope);
      const current = await commands.get(organizationId, deviceId, id);
      checkEtag('command', current.revision, etag);
      const { customEncoder, violations } = await resolveReferences(repos, device, id, definition, current);
      throwIfAny(violations);
      const command: Command = {
        ...definition,
        customEncoder,
        id,
        organizationId,
        deviceId,
        revision: current.revision + 1,
        createdAt: current.createdAt,
        updatedAt: this.options.clock.now(),
      };
      await commands.update(organizationId, command);
      return command;
    });
  }

  /** Throws `device_not_found`, `command_not_found`, `version_conflict`, `query_command_in_use`. */
  async delete(
    organizationId: string,
    deviceId: string,
    id: string,
    etag: string | undefined,
    deviceScope?: DeviceScope,
  ): Promise<void> {
    await this.work.transaction(async ({ commands, devices }) => {
      await devices.lock(organizationId, deviceId, deviceScope);
      const command = await commands.get(organizationId, deviceId, id);
      checkEtag('command', command.revision, etag);
      const usedBy = await commands.listQueryingCommandNames(organizationId, deviceId, id);
      if (usedBy.length > 0) throw queryCommandInUse(id, usedBy);
      await commands.delete(organizationId, deviceId, id);
    });
  }
}

/** The resolved references of a definition. Valid only if there are no violations. */
interface ResolvedReferences {
  readonly customEncoder: string | undefined;
  readonly violations: Violation[];
}

/**
 * Resolves the references of a definition and reports those that do not exist. `id`: the id of the command; `replaced`:
 * the existing command, if any.
 */
async function resolveReferences(
  { commands, codecs }: CommandRepositories,
  device: Device,
  id: string | undefined,
  definition: CommandReferences,
  replaced?: Command,
): Promise<ResolvedReferences> {
  const violations = await checkDeviceReferences(commands, device, id, definition);
  const { script, problem } = await findEncoder(codecs, definition, replaced);
  const profileViolations = problem === undefined ? [] : [{ field: 'command.encoderProfileId', description: problem }];
  return { customEncoder: script, violations: [...violations, ...profileViolations] };
}

/** Checks that the references of a definition belong to the same device. */
async function checkDeviceReferences(
  commands: CommandRepository,
  device: Device,
  id: string | undefined,
  definition: CommandReferences,
): Promise<Violation[]> {
  const ownSensorIds = new Set(device.sensors.map((sensor) => sensor.id));
  const violations = definition.expectedSensorStates.flatMap(({ sensorId }, index) =>
    ownSensorIds.has(sensorId)
      ? []
      : [
          {
            field: `command.expectedSensorStates[${index}].sensorId`,
            description: 'is not a sensor of this device; use the id of one of its sensors',
          },
        ],
  );
  const { queryCommandId } = definition;
  if (queryCommandId === undefined) return violations;
  if (queryCommandId === id)
    violations.push({
      field: 'command.queryCommandId',
      description: 'must not be the command itself; use another command of this device',
    });
  else if (!isId(queryCommandId) || !(await commands.find(device.organizationId, device.id, queryCommandId))) {
    violations.push({
      field: 'command.queryCommandId',
      description: 'is not a command of this device; use the id of one of its commands',
    });
  }
  return violations;
}
