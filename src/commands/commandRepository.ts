import { foldName, IdsRepository, uniqueOr, type Database, type Db, type HotStatement } from '../database';
import type { SensorUse } from '../devices';
import { notFound } from '../kernel/errors';
import type { CreatedPosition } from '../kernel/pages';
import { commandNameTaken, type Command, type CommandDefinition } from './command';

interface CommandRow {
  readonly id: string;
  readonly organization_id: string;
  readonly device_id: string;
  readonly name: string;
  /** JSON of the definition but the name. */
  readonly definition: string;
  readonly revision: number;
  readonly created_at: number;
  readonly updated_at: number;
}

const COLUMNS = ['c.id', 'c.organization_id', 'c.device_id', 'c.name', 'c.definition', 'c.revision', 'c.created_at', 'c.updated_at'];

const GET: HotStatement = {
  name: 'commands.get',
  sql: () => `select ${COLUMNS.join(', ')} from commands c where c.organization_id = ? and c.device_id = ? and c.id = ?`,
};

/** Commands and the sensors that they expect a state of. Assumes validated input, and for writes that the device is locked. */
export class CommandRepository {
  constructor(private readonly db: Db) {}

  /** Throws `command_not_found`, also for a command of another device. */
  async get(organizationId: string, deviceId: string, id: string): Promise<Command> {
    const command = await this.find(organizationId, deviceId, id);
    if (!command) throw notFound('command', id);
    return command;
  }

  /** The command, if this device has it. */
  async find(organizationId: string, deviceId: string, id: string): Promise<Command | undefined> {
    const [row] = await this.db.all<CommandRow>(GET, [organizationId, deviceId, id]);
    return row && commandFromRow(row);
  }

  /** Newest created first, beginning behind `after`; of these alone where `ids` are given. */
  async list(organizationId: string, deviceId: string, after: CreatedPosition | undefined, limit: number, ids?: ReadonlySet<string>): Promise<Command[]> {
    const query = this.ofDevice(organizationId, deviceId).select<CommandRow[]>(COLUMNS).orderBy([{ column: 'c.created_at', order: 'desc' }, { column: 'c.id', order: 'desc' }]).limit(limit);
    if (after) void query.whereRaw('(c.created_at, c.id) < (?, ?)', [after.createdAt, after.id]);
    if (ids) void query.whereIn('c.id', (await this.ofDevice(organizationId, deviceId).pluck<string[]>('c.id')).filter((id) => ids.has(id))); // a device has fewer than a key may name
    const rows = await query;
    return rows.map(commandFromRow);
  }

  /** How many commands the device has. */
  async count(organizationId: string, deviceId: string): Promise<number> {
    const row = await this.ofDevice(organizationId, deviceId).count<{ commands: number }[]>({ commands: '*' }).first();
    return row?.commands ?? 0;
  }

  /** Adds a command. Throws `name_taken`. */
  async create(organizationId: string, command: Command): Promise<void> {
    const { id, deviceId, revision, createdAt, updatedAt } = command;
    const row = { ...definitionColumns(command), id, organization_id: organizationId, device_id: deviceId, revision, created_at: createdAt, updated_at: updatedAt };
    await uniqueOr(this.db.dialect, () => commandNameTaken(command.name), async () => await this.db.knex('commands').insert(row));
    await this.addSensors(command);
  }

  /** Replaces the definition of a command that is there. Throws `name_taken`. */
  async update(organizationId: string, command: Command): Promise<void> {
    const { id, deviceId, revision, updatedAt } = command;
    const columns = { ...definitionColumns(command), revision, updated_at: updatedAt };
    await uniqueOr(this.db.dialect, () => commandNameTaken(command.name), async () => await this.ofDevice(organizationId, deviceId).where('c.id', id).update(columns));
    await this.db.knex('command_sensors').where('command_id', id).delete();
    await this.addSensors(command);
  }

  /** Deletes a command that no other queries with. */
  async delete(organizationId: string, deviceId: string, id: string): Promise<void> {
    await this.ofDevice(organizationId, deviceId).where('c.id', id).delete();
  }

  /** The names of the commands that query with this one. */
  async namesOfQueriers(organizationId: string, deviceId: string, id: string): Promise<string[]> {
    return await this.ofDevice(organizationId, deviceId).where('c.query_command_id', id).orderBy('c.name').pluck<string[]>('c.name');
  }

  /** Which commands expect a state of one of these sensors. */
  async usesOfSensors(organizationId: string, sensorIds: readonly string[]): Promise<SensorUse[]> {
    return await this.uses(organizationId)
      .whereIn('u.sensor_id', [...sensorIds])
      .select<SensorUse[]>({ sensorId: 'u.sensor_id', commandName: 'c.name' })
      .orderBy(['u.sensor_id', 'c.name']);
  }

  /** How many commands expect a state of a sensor that has this template. */
  async countUsesOfTemplate(organizationId: string, sensorTemplateId: string): Promise<number> {
    const row = await this.uses(organizationId)
      .join('sensors as s', 's.id', 'u.sensor_id')
      .where('s.organization_id', organizationId)
      .where('s.sensor_template_id', sensorTemplateId)
      .countDistinct<{ commands: number }[]>({ commands: 'c.id' })
      .first();
    return row?.commands ?? 0;
  }

  private uses(organizationId: string) {
    return this.db.knex('commands as c').where('c.organization_id', organizationId).join('command_sensors as u', 'u.command_id', 'c.id');
  }

  private async addSensors(command: Command): Promise<void> {
    if (command.expectedSensorStates.length === 0) return;
    await this.db.knex('command_sensors').insert(command.expectedSensorStates.map(({ sensorId }) => ({ command_id: command.id, sensor_id: sensorId })));
  }

  private ofDevice(organizationId: string, deviceId: string) {
    return this.db.knex('commands as c').where('c.organization_id', organizationId).where('c.device_id', deviceId);
  }
}

/** How to ask which of some ids are no commands of an organization, of whichever device. */
export function missingCommands(database: Database): (organizationId: string, ids: readonly string[]) => Promise<string[]> {
  const commands = new IdsRepository(database.db, 'commands');
  return async (organizationId, ids) => await commands.missing(organizationId, ids);
}

function definitionColumns(command: Command): Record<string, string | null> {
  // Named one by one: what is not of the definition stays out of its column.
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
  return { name: command.name, name_folded: foldName(command.name), definition: JSON.stringify(definition), query_command_id: command.queryCommandId ?? null };
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
