import {
  normalizeForSearch,
  IdsRepository,
  onUniqueViolation,
  type Database,
  type Db,
  type PreparedStatement,
} from '../database';
import type { SensorUse } from '../devices';
import { notFound } from '../kernel/errors';
import type { CreatedPosition } from '../kernel/pages';
import { commandNameTaken, type Command, type CommandDefinition } from './command';

interface CommandRow {
  readonly id: string;
  readonly organization_id: string;
  readonly device_id: string;
  readonly name: string;
  /** JSON of the definition without the name. */
  readonly definition: string;
  readonly revision: number;
  readonly created_at: number;
  readonly updated_at: number;
}

const COLUMNS = [
  'c.id',
  'c.organization_id',
  'c.device_id',
  'c.name',
  'c.definition',
  'c.revision',
  'c.created_at',
  'c.updated_at',
];

const GET: PreparedStatement = {
  name: 'commands.get',
  sql: () =>
    `select ${COLUMNS.join(', ')} from commands c where c.organization_id = ? and c.device_id = ? and c.id = ?`,
};

/**
 * Stores commands and the sensors whose states they expect. Assumes validated input; writes also assume a locked
 * device.
 */
export class CommandRepository {
  constructor(private readonly db: Db) {}

  /** Throws `command_not_found`, also for a command of another device. */
  async get(organizationId: string, deviceId: string, id: string): Promise<Command> {
    const command = await this.find(organizationId, deviceId, id);
    if (!command) throw notFound('command', id);
    return command;
  }

  /** Finds a command of this device. */
  async find(organizationId: string, deviceId: string, id: string): Promise<Command | undefined> {
    const [row] = await this.db.all<CommandRow>(GET, [organizationId, deviceId, id]);
    return row && commandFromRow(row);
  }

  /** Lists commands newest first, after the position `after`; only those in `ids` if set. */
  async list(
    organizationId: string,
    deviceId: string,
    after: CreatedPosition | undefined,
    limit: number,
    ids?: ReadonlySet<string>,
  ): Promise<Command[]> {
    const query = this.queryDeviceCommands(organizationId, deviceId)
      .select<CommandRow[]>(COLUMNS)
      .orderBy([
        { column: 'c.created_at', order: 'desc' },
        { column: 'c.id', order: 'desc' },
      ])
      .limit(limit);
    if (after) void query.whereRaw('(c.created_at, c.id) < (?, ?)', [after.createdAt, after.id]);
    if (ids) {
      // Filtered here and not in SQL, because a key may name many more commands than the device has.
      const deviceCommandIds = await this.queryDeviceCommands(organizationId, deviceId).pluck<string[]>('c.id');
      void query.whereIn(
        'c.id',
        deviceCommandIds.filter((id) => ids.has(id)),
      );
    }
    const rows = await query;
    return rows.map(commandFromRow);
  }

  /** Counts the commands of the device. */
  async count(organizationId: string, deviceId: string): Promise<number> {
    const row = await this.queryDeviceCommands(organizationId, deviceId)
      .count<{ commands: number }[]>({ commands: '*' })
      .first();
    return row?.commands ?? 0;
  }

  /** Adds a command. Throws `name_taken`. */
  async create(organizationId: string, command: Command): Promise<void> {
    const { id, deviceId, revision, createdAt, updatedAt } = command;
    const row = {
      ...formatDefinitionColumns(command),
      id,
      organization_id: organizationId,
      device_id: deviceId,
      revision,
      created_at: createdAt,
      updated_at: updatedAt,
    };
    await onUniqueViolation(
      this.db.dialect,
      () => commandNameTaken(command.name),
      async () => await this.db.knex('commands').insert(row),
    );
    await this.insertSensorUses(command);
  }

  /** Replaces the definition of an existing command. Throws `name_taken`. */
  async update(organizationId: string, command: Command): Promise<void> {
    const { id, deviceId, revision, updatedAt } = command;
    const columns = { ...formatDefinitionColumns(command), revision, updated_at: updatedAt };
    await onUniqueViolation(
      this.db.dialect,
      () => commandNameTaken(command.name),
      async () => await this.queryDeviceCommands(organizationId, deviceId).where('c.id', id).update(columns),
    );
    await this.db.knex('command_sensors').where('command_id', id).delete();
    await this.insertSensorUses(command);
  }

  /** Deletes a command. The caller must check that no other command uses it as query command. */
  async delete(organizationId: string, deviceId: string, id: string): Promise<void> {
    await this.queryDeviceCommands(organizationId, deviceId).where('c.id', id).delete();
  }

  /** Returns the names of the commands that use this one as query command. */
  async listQueryingCommandNames(organizationId: string, deviceId: string, id: string): Promise<string[]> {
    return await this.queryDeviceCommands(organizationId, deviceId)
      .where('c.query_command_id', id)
      .orderBy('c.name')
      .pluck<string[]>('c.name');
  }

  /**
   * Returns which command uses which of these sensors in its expected states: one entry per pair of a command and a
   * sensor.
   */
  async findSensorUses(organizationId: string, sensorIds: readonly string[]): Promise<SensorUse[]> {
    return await this.querySensorUses(organizationId)
      .whereIn('u.sensor_id', [...sensorIds])
      .select<SensorUse[]>({ sensorId: 'u.sensor_id', commandName: 'c.name' })
      .orderBy(['u.sensor_id', 'c.name']);
  }

  /** Counts the commands that expect a state of a sensor of this template. */
  async countTemplateUses(organizationId: string, sensorTemplateId: string): Promise<number> {
    const row = await this.querySensorUses(organizationId)
      .join('sensors as s', 's.id', 'u.sensor_id')
      .where('s.organization_id', organizationId)
      .where('s.sensor_template_id', sensorTemplateId)
      .countDistinct<{ commands: number }[]>({ commands: 'c.id' })
      .first();
    return row?.commands ?? 0;
  }

  /** Builds the query for the commands `c` and the sensors whose states they expect (`u`). */
  private querySensorUses(organizationId: string) {
    return this.db
      .knex('commands as c')
      .where('c.organization_id', organizationId)
      .join('command_sensors as u', 'u.command_id', 'c.id');
  }

  /** Stores the sensors whose states the command expects. */
  private async insertSensorUses(command: Command): Promise<void> {
    if (command.expectedSensorStates.length === 0) return;
    await this.db
      .knex('command_sensors')
      .insert(command.expectedSensorStates.map(({ sensorId }) => ({ command_id: command.id, sensor_id: sensorId })));
  }

  private queryDeviceCommands(organizationId: string, deviceId: string) {
    return this.db.knex('commands as c').where('c.organization_id', organizationId).where('c.device_id', deviceId);
  }
}

/** Creates a query for the ids that are not commands of any device of an organization. */
export function createMissingCommandsQuery(
  database: Database,
): (organizationId: string, ids: readonly string[]) => Promise<string[]> {
  const commands = new IdsRepository(database.db, 'commands');
  return async (organizationId, ids) => await commands.findMissing(organizationId, ids);
}

/** Returns the columns of the definition: the fields that are searched have their own columns, the others are JSON. */
function formatDefinitionColumns(command: Command): Record<string, string | null> {
  // Fields are listed one by one, so that no other field is stored in this column.
  const definition: Omit<CommandDefinition, 'name'> = {
    description: command.description,
    mode: command.mode,
    verificationStrategy: command.verificationStrategy,
    paramsSchema: command.paramsSchema,
    encodedParamsTemplate: command.encodedParamsTemplate,
    directPayload: command.directPayload,
    customEncoder: command.customEncoder,
    fPort: command.fPort,
    mqttTopic: command.mqttTopic,
    confirmed: command.confirmed,
    queryCommandId: command.queryCommandId,
    expectedSensorStates: command.expectedSensorStates,
    convergenceTimeout: command.convergenceTimeout,
    encoderProfileId: command.encoderProfileId,
  };
  return {
    name: command.name,
    name_folded: normalizeForSearch(command.name),
    definition: JSON.stringify(definition),
    query_command_id: command.queryCommandId ?? null,
  };
}

function commandFromRow(row: CommandRow): Command {
  return {
    ...(JSON.parse(row.definition) as Omit<CommandDefinition, 'name'>),
    name: row.name,
    id: row.id,
    organizationId: row.organization_id,
    deviceId: row.device_id,
    revision: row.revision,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
