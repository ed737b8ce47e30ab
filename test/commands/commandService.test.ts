import { status } from '@grpc/grpc-js';
import {
  UpdateCommandRequest,
  type Command,
  type CommandDefinition,
  type ListCommandsRequest,
  type ListCommandsResponse,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { newId } from '../../src/kernel/ids';
import { call, callFails, type GrpcErrorInfo } from '../support/edge';
import { engines } from '../support/engines';
import { AS_ONE, AS_TWO, startCommandFixture, wireDefinition, type CommandFixture } from './commandFixture';

async function reasons(errors: readonly Promise<GrpcErrorInfo>[]): Promise<string[]> {
  return (await Promise.all(errors)).map((error) => `${error.code} ${error.reason}`);
}

describe.each(engines())('commands on $name', (engine) => {
  let fixture: CommandFixture;
  beforeAll(async () => {
    fixture = await startCommandFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  async function get(id: string, commandId: string): Promise<Command> {
    return await call(fixture.client.getCommand.bind(fixture.client), { id, commandId, organizationId: '' }, AS_ONE);
  }
  async function names(id: string, pageSize: number, pageToken = ''): Promise<{ names: string[]; next: string }> {
    const page = await call<ListCommandsRequest, ListCommandsResponse>(
      fixture.client.listCommands.bind(fixture.client),
      { id, organizationId: '', pageSize, pageToken },
      AS_ONE,
    );
    return { names: page.commands.map((command) => command.name), next: page.nextPageToken };
  }
  async function update(command: Command, overrides: Partial<CommandDefinition>, etag?: string): Promise<Command> {
    return await call(
      fixture.client.updateCommand.bind(fixture.client),
      UpdateCommandRequest.fromPartial({
        id: command.deviceId,
        commandId: command.id,
        command: wireDefinition(overrides),
        etag,
      }),
      AS_ONE,
    );
  }
  async function updateFails(
    command: Command,
    overrides: Partial<CommandDefinition>,
    etag?: string,
  ): Promise<GrpcErrorInfo> {
    return await callFails(
      fixture.client.updateCommand.bind(fixture.client),
      UpdateCommandRequest.fromPartial({
        id: command.deviceId,
        commandId: command.id,
        command: wireDefinition(overrides),
        etag,
      }),
      AS_ONE,
    );
  }
  async function remove(command: Command, etag?: string): Promise<void> {
    await call(
      fixture.client.deleteCommand.bind(fixture.client),
      { id: command.deviceId, commandId: command.id, organizationId: '', etag },
      AS_ONE,
    );
  }
  async function removeFails(command: Command, etag?: string): Promise<GrpcErrorInfo> {
    return await callFails(
      fixture.client.deleteCommand.bind(fixture.client),
      { id: command.deviceId, commandId: command.id, organizationId: '', etag },
      AS_ONE,
    );
  }

  it('are returned as they were written', async () => {
    const { id, sensorIds } = await fixture.device({ sensors: 1 });
    const query = await fixture.create(id, { name: 'Ask' });
    const given = wireDefinition({
      name: 'Ventil öffnen',
      description: '',
      verificationStrategy: 3,
      paramsSchema: {
        position: { type: 2, default: 0, description: 'percent', min: 0, max: 100, enum: [], pattern: undefined },
        nothing: {
          type: 0,
          default: null,
          description: undefined,
          min: undefined,
          max: undefined,
          enum: [null, { a: [1] }],
          pattern: undefined,
        },
        needed: {
          type: 1,
          default: undefined,
          description: undefined,
          min: undefined,
          max: undefined,
          enum: [],
          pattern: '^a',
        },
      },
      directPayload: '{"p": {{params.position}}}',
      fPort: 10,
      mqttTopic: 'a/{clientDeviceId}',
      confirmed: false,
      queryCommandId: query.id,
      expectedSensorStates: [{ sensorId: String(sensorIds[0]), valueTemplate: '{{params.position}}' }],
      convergenceTimeout: 60,
    });
    const created = await fixture.create(id, given);
    expect(created).toMatchObject({
      ...given,
      organizationId: 'org-1',
      deviceId: id,
      revision: 1,
      etag: '"1"',
      createdAt: { seconds: Math.floor(fixture.clock.now() / 1000) },
    });
    expect(await get(id, created.id)).toEqual(created);
    // A default of null is a value; an absent default is not.
    expect(created.paramsSchema['nothing']?.default).toBeNull();
    expect(created.paramsSchema['needed']?.default).toBeUndefined();
  });

  it('are returned as they were written, with an encoder', async () => {
    const { id } = await fixture.device();
    const given = wireDefinition({
      mode: 2,
      directPayload: undefined,
      customEncoder: 'function encodeDownlink(input) { return { bytes: [1] }; }',
      encodedParamsTemplate: { a: [1, null, '{{device.id}}'] },
    });
    expect(await get(id, (await fixture.create(id, given)).id)).toMatchObject(given);
  });

  it('are rejected with all faults of the message at once, including those of the field rules', async () => {
    const { id } = await fixture.device();
    const error = await fixture.createFails(id, {
      name: '',
      mode: 1,
      verificationStrategy: 0,
      directPayload: '{"a": {{params.b}}}',
      customEncoder: 'x',
      fPort: 224,
    });
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(error.fields.toSorted()).toEqual([
      'command.customEncoder',
      'command.directPayload',
      'command.fPort',
      'command.name',
      'command.verificationStrategy',
    ]);
    expect(await names(id, 0)).toEqual({ names: [], next: '' });
  });

  it('may refer only to what their device has, and are rejected with all unknown references at once', async () => {
    const own = await fixture.device({ sensors: 1 });
    const other = await fixture.device({ sensors: 1 });
    const query = await fixture.create(other.id);
    const expectedSensorStates = [...own.sensorIds, ...other.sensorIds, newId()].map((sensorId) => ({
      sensorId,
      valueTemplate: '1',
    }));
    const error = await fixture.createFails(own.id, { expectedSensorStates, queryCommandId: query.id });
    expect(error.reason).toBe('validation_failed');
    expect(error.fields).toEqual([
      'command.expectedSensorStates[1].sensorId',
      'command.expectedSensorStates[2].sensorId',
      'command.queryCommandId',
    ]);
    const wrong = {
      name: '',
      directPayload: '{"a": {{params.b}}}',
      expectedSensorStates: [...expectedSensorStates, { sensorId: 'n\0l', valueTemplate: '1' }],
    };
    const all = await fixture.createFails(own.id, { ...wrong, queryCommandId: query.id });
    const states = [1, 2, 3].map((at) => `command.expectedSensorStates[${at}].sensorId`);
    expect(all.fields.toSorted()).toEqual([
      'command.directPayload',
      ...states,
      'command.name',
      'command.queryCommandId',
    ]);
    expect(all.violations['command.expectedSensorStates[3].sensorId']).toContain('NUL');
    const command = await fixture.create(own.id);
    expect((await updateFails(command, { ...wrong, queryCommandId: command.id })).fields.toSorted()).toEqual(
      all.fields.toSorted(),
    );
    expect(
      (await fixture.createFails(own.id, { name: '', queryCommandId: 'n\0l' })).violations['command.queryCommandId'],
    ).toContain('NUL');
    expect((await fixture.createFails(newId(), { name: '', queryCommandId: query.id })).fields).toEqual([
      'command.name',
    ]);
    expect((await updateFails(command, { queryCommandId: command.id })).violations).toEqual({
      'command.queryCommandId': 'must not be the command itself; use another command of this device',
    });
  });

  it('have unique names on a device, ignoring case', async () => {
    const { id } = await fixture.device();
    await fixture.create(id, { name: 'Öffnen' });
    const other = await fixture.create(id, { name: 'Schließen' });
    expect(await fixture.createFails(id, { name: ' öFFNEN ' })).toMatchObject({
      code: status.ALREADY_EXISTS,
      reason: 'name_taken',
    });
    expect(await updateFails(other, { name: 'ÖFFNEN' })).toMatchObject({
      code: status.ALREADY_EXISTS,
      reason: 'name_taken',
    });
    expect((await update(other, { name: 'SCHLIESSEN' })).name).toBe('SCHLIESSEN');
    await fixture.create((await fixture.device()).id, { name: 'Öffnen' });
  });

  it('are replaced completely', async () => {
    const { id, sensorIds } = await fixture.device({ sensors: 2 });
    const states = sensorIds.map((sensorId) => ({ sensorId, valueTemplate: '1' }));
    const created = await fixture.create(id, {
      description: 'first',
      fPort: 5,
      expectedSensorStates: states.slice(0, 1),
    });
    fixture.clock.advance(1000);
    const updated = await update(created, { name: 'Other', expectedSensorStates: states.slice(1) }, created.etag);
    expect(updated).toMatchObject({
      id: created.id,
      name: 'Other',
      description: undefined,
      fPort: undefined,
      revision: 2,
      etag: '"2"',
      createdAt: created.createdAt,
    });
    expect(updated.updatedAt).not.toEqual(created.updatedAt);
    expect(await get(id, created.id)).toEqual(updated);
    // A sensor that is no longer expected is released; a newly expected one is in use.
    await fixture.sensors.remove('org-1', id, sensorIds.slice(0, 1));
    await expect(fixture.sensors.remove('org-1', id, sensorIds.slice(1))).rejects.toMatchObject({
      reason: 'sensor_in_use',
    });
  });

  it('are changed and deleted only with the current etag', async () => {
    const { id } = await fixture.device();
    const created = await fixture.create(id);
    await update(created, { name: 'Second' }, created.etag);
    expect(await updateFails(created, { name: 'Third' }, created.etag)).toMatchObject({
      code: status.ABORTED,
      reason: 'version_conflict',
      metadata: { etag: '"2"' },
    });
    expect(await removeFails(created, created.etag)).toMatchObject({
      code: status.ABORTED,
      reason: 'version_conflict',
    });
    await remove(created, '"2"');
    expect(await removeFails(created)).toMatchObject({ code: status.NOT_FOUND, reason: 'command_not_found' });
  });

  it('cannot be deleted while other commands use them as a query', async () => {
    const { id } = await fixture.device();
    const query = await fixture.create(id, { name: 'Ask' });
    const user = await fixture.create(id, { name: 'Set', verificationStrategy: 3, queryCommandId: query.id });
    const error = await removeFails(query);
    expect(error).toMatchObject({
      code: status.FAILED_PRECONDITION,
      reason: 'query_command_in_use',
      metadata: { command_id: query.id, uses: '1' },
    });
    expect(error.message).toContain('"Set"');
    await update(user, { name: 'Set' });
    await remove(query);
    await remove(user);
    expect((await names(id, 10)).names).toEqual([]);
  });

  it('are listed newest first and in pages, even when they were created at the same time', async () => {
    const { id } = await fixture.device();
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      if (name === 'd') fixture.clock.advance(1);
      await fixture.create(id, { name });
    }
    const first = await names(id, 2);
    const second = await names(id, 2, first.next);
    const third = await names(id, 2, second.next);
    expect([first.names, second.names, third.names, third.next]).toEqual([['e', 'd'], ['c', 'b'], ['a'], '']);
    const foreign = await callFails(
      fixture.client.listCommands.bind(fixture.client),
      { id: (await fixture.device()).id, organizationId: '', pageSize: 2, pageToken: first.next },
      AS_ONE,
    );
    expect(foreign).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'validation_failed',
      fields: ['pageToken'],
    });
  });

  it('are limited to 200 per device, even when many are created concurrently', async () => {
    const { id } = await fixture.device();
    for (let at = 0; at < 195; at += 1) await fixture.create(id, { name: `Command ${at}` });
    const results = await Promise.allSettled(
      Array.from({ length: 10 }, async (_, at) => await fixture.create(id, { name: `Late ${at}` })),
    );
    expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(5);
    expect(await fixture.createFails(id, { name: 'One more' })).toMatchObject({
      code: status.FAILED_PRECONDITION,
      reason: 'command_limit_reached',
    });
    expect((await names(id, 200)).names).toHaveLength(200);
  });

  it('are not found from another organization or device', async () => {
    const { id } = await fixture.device();
    const other = await fixture.device();
    const command = await fixture.create(id);
    const calls = (deviceId: string, commandId: string, headers: typeof AS_ONE): Promise<GrpcErrorInfo>[] => [
      callFails(
        fixture.client.getCommand.bind(fixture.client),
        { id: deviceId, commandId, organizationId: '' },
        headers,
      ),
      callFails(
        fixture.client.updateCommand.bind(fixture.client),
        { id: deviceId, commandId, organizationId: '', command: wireDefinition() },
        headers,
      ),
      callFails(
        fixture.client.deleteCommand.bind(fixture.client),
        { id: deviceId, commandId, organizationId: '' },
        headers,
      ),
    ];
    expect(await reasons(calls(id, command.id, AS_TWO))).toEqual(Array(3).fill('5 device_not_found'));
    expect(await reasons(calls(other.id, command.id, AS_ONE))).toEqual(Array(3).fill('5 command_not_found'));
    expect(await reasons(calls(newId(), command.id, AS_ONE))).toEqual(Array(3).fill('5 device_not_found'));
    const lists = [
      callFails(fixture.client.listCommands.bind(fixture.client), { id, organizationId: '', pageToken: '' }, AS_TWO),
      callFails(
        fixture.client.createCommand.bind(fixture.client),
        { id, organizationId: '', command: wireDefinition() },
        AS_TWO,
      ),
    ];
    expect(await reasons(lists)).toEqual(Array(2).fill('5 device_not_found'));
    expect(await get(id, command.id)).toEqual(command);
  });

  it('protect the sensors and the value types that they expect', async () => {
    const templateId = await fixture.template();
    const { id, sensorIds } = await fixture.device({ sensors: 1, templateId });
    const command = await fixture.create(id, {
      expectedSensorStates: [{ sensorId: String(sensorIds[0]), valueTemplate: '1' }],
    });
    const template = {
      keyNameId: (await fixture.templates.get('org-1', templateId)).keyNameId,
      valueType: 'string' as const,
      sensorType: undefined,
      unitMeasurementId: undefined,
      description: undefined,
    };
    await expect(
      fixture.sensors.setTemplate('org-1', id, String(sensorIds[0]), await fixture.template()),
    ).rejects.toMatchObject({ reason: 'sensor_in_use' });
    await expect(fixture.templates.update('org-1', templateId, template)).rejects.toMatchObject({
      reason: 'template_in_use',
    });
    await remove(command);
    await fixture.templates.update('org-1', templateId, template);
    await fixture.sensors.remove('org-1', id, sensorIds);
  });

  it('are deleted with their device, including those that query with each other', async () => {
    const { id, sensorIds } = await fixture.device({ sensors: 1 });
    const first = await fixture.create(id, {
      name: 'a',
      expectedSensorStates: [{ sensorId: String(sensorIds[0]), valueTemplate: '1' }],
    });
    const second = await fixture.create(id, { name: 'b', queryCommandId: first.id });
    await update(first, { name: 'a', queryCommandId: second.id });
    await fixture.devices.delete('org-1', id, undefined);
    expect(await fixture.db.database.db.knex('commands').where('device_id', id)).toEqual([]);
  });
});
