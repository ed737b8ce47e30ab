import { status } from '@grpc/grpc-js';
import { UpdateCommandRequest, type Command, type CommandDefinition, type ListCommandsRequest, type ListCommandsResponse } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { newId } from '../../src/kernel/ids';
import { call, callFails, type SeenError } from '../support/edge';
import { engines } from '../support/engines';
import { AS_ONE, AS_TWO, startCommandRoom, wireDefinition, type CommandRoom } from './commandRoom';

async function reasons(errors: readonly Promise<SeenError>[]): Promise<string[]> {
  return (await Promise.all(errors)).map((error) => `${error.code} ${error.reason}`);
}

describe.each(engines())('commands on $name', (engine) => {
  let room: CommandRoom;
  beforeAll(async () => {
    room = await startCommandRoom(engine);
  });
  afterAll(async () => await room.stop());

  async function get(id: string, commandId: string): Promise<Command> {
    return await call(room.client.getCommand.bind(room.client), { id, commandId, organizationId: '' }, AS_ONE);
  }
  async function names(id: string, pageSize: number, pageToken = ''): Promise<{ names: string[]; next: string }> {
    const page = await call<ListCommandsRequest, ListCommandsResponse>(room.client.listCommands.bind(room.client), { id, organizationId: '', pageSize, pageToken }, AS_ONE);
    return { names: page.commands.map((command) => command.name), next: page.nextPageToken };
  }
  async function update(command: Command, overrides: Partial<CommandDefinition>, etag?: string): Promise<Command> {
    return await call(room.client.updateCommand.bind(room.client), UpdateCommandRequest.fromPartial({ id: command.deviceId, commandId: command.id, command: wireDefinition(overrides), etag }), AS_ONE);
  }
  async function updateFails(command: Command, overrides: Partial<CommandDefinition>, etag?: string): Promise<SeenError> {
    return await callFails(room.client.updateCommand.bind(room.client), UpdateCommandRequest.fromPartial({ id: command.deviceId, commandId: command.id, command: wireDefinition(overrides), etag }), AS_ONE);
  }
  async function remove(command: Command, etag?: string): Promise<void> {
    await call(room.client.deleteCommand.bind(room.client), { id: command.deviceId, commandId: command.id, organizationId: '', etag }, AS_ONE);
  }
  async function removeFails(command: Command, etag?: string): Promise<SeenError> {
    return await callFails(room.client.deleteCommand.bind(room.client), { id: command.deviceId, commandId: command.id, organizationId: '', etag }, AS_ONE);
  }

  it('come back as they were given', async () => {
    const { id, sensorIds } = await room.device({ sensors: 1 });
    const query = await room.create(id, { name: 'Ask' });
    const given = wireDefinition({
      name: 'Ventil öffnen',
      description: '',
      verificationStrategy: 3,
      paramsSchema: {
        position: { type: 2, default: 0, description: 'percent', min: 0, max: 100, enum: [], pattern: undefined },
        nothing: { type: 0, default: null, description: undefined, min: undefined, max: undefined, enum: [null, { a: [1] }], pattern: undefined },
        needed: { type: 1, default: undefined, description: undefined, min: undefined, max: undefined, enum: [], pattern: '^a' },
      },
      directPayload: '{"p": {{params.position}}}',
      fPort: 10,
      mqttTopic: 'a/{clientDeviceId}',
      confirmed: false,
      queryCommandId: query.id,
      expectedSensorStates: [{ sensorId: String(sensorIds[0]), valueTemplate: '{{params.position}}' }],
      convergenceTimeout: 60,
    });
    const created = await room.create(id, given);
    expect(created).toMatchObject({ ...given, organizationId: 'org-1', deviceId: id, revision: 1, etag: '"1"', createdAt: { seconds: Math.floor(room.clock.now() / 1000) } });
    expect(await get(id, created.id)).toEqual(created);
    // A default of null is one, an absent one is none.
    expect(created.paramsSchema['nothing']?.default).toBeNull();
    expect(created.paramsSchema['needed']?.default).toBeUndefined();
  });

  it('of the encoder come back too', async () => {
    const { id } = await room.device();
    const given = wireDefinition({ mode: 2, directPayload: undefined, customEncoder: 'function encodeDownlink(input) { return { bytes: [1] }; }', encodedParamsTemplate: { a: [1, null, '{{device.id}}'] } });
    expect(await get(id, (await room.create(id, given)).id)).toMatchObject(given);
  });

  it('are refused with all faults of the message at once, those of the field rules too', async () => {
    const { id } = await room.device();
    const error = await room.createFails(id, { name: '', mode: 1, verificationStrategy: 0, directPayload: '{"a": {{params.b}}}', customEncoder: 'x', fPort: 224 });
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(error.fields.toSorted()).toEqual(['command.customEncoder', 'command.directPayload', 'command.fPort', 'command.name', 'command.verificationStrategy']);
    expect(await names(id, 0)).toEqual({ names: [], next: '' });
  });

  it('may refer only to what their device has, and are told all at once', async () => {
    const own = await room.device({ sensors: 1 });
    const other = await room.device({ sensors: 1 });
    const query = await room.create(other.id);
    const expectedSensorStates = [...own.sensorIds, ...other.sensorIds, newId()].map((sensorId) => ({ sensorId, valueTemplate: '1' }));
    const error = await room.createFails(own.id, { expectedSensorStates, queryCommandId: query.id });
    expect(error.reason).toBe('validation_failed');
    expect(error.fields).toEqual(['command.expectedSensorStates[1].sensorId', 'command.expectedSensorStates[2].sensorId', 'command.queryCommandId']);
    const wrong = { name: '', directPayload: '{"a": {{params.b}}}', expectedSensorStates: [...expectedSensorStates, { sensorId: 'n\0l', valueTemplate: '1' }] };
    const all = await room.createFails(own.id, { ...wrong, queryCommandId: query.id });
    const states = [1, 2, 3].map((at) => `command.expectedSensorStates[${at}].sensorId`);
    expect(all.fields.toSorted()).toEqual(['command.directPayload', ...states, 'command.name', 'command.queryCommandId']);
    expect(all.violations['command.expectedSensorStates[3].sensorId']).toContain('NUL');
    const command = await room.create(own.id);
    expect((await updateFails(command, { ...wrong, queryCommandId: command.id })).fields.toSorted()).toEqual(all.fields.toSorted());
    expect((await room.createFails(own.id, { name: '', queryCommandId: 'n\0l' })).violations['command.queryCommandId']).toContain('NUL');
    expect((await room.createFails(newId(), { name: '', queryCommandId: query.id })).fields).toEqual(['command.name']);
    expect((await updateFails(command, { queryCommandId: command.id })).violations).toEqual({ 'command.queryCommandId': 'is the command itself; give another command of this device' });
  });

  it('have names of their own on a device, upper and lower case aside', async () => {
    const { id } = await room.device();
    await room.create(id, { name: 'Öffnen' });
    const other = await room.create(id, { name: 'Schließen' });
    expect(await room.createFails(id, { name: ' öFFNEN ' })).toMatchObject({ code: status.ALREADY_EXISTS, reason: 'name_taken' });
    expect(await updateFails(other, { name: 'ÖFFNEN' })).toMatchObject({ code: status.ALREADY_EXISTS, reason: 'name_taken' });
    expect((await update(other, { name: 'SCHLIESSEN' })).name).toBe('SCHLIESSEN');
    await room.create((await room.device()).id, { name: 'Öffnen' });
  });

  it('are replaced as a whole', async () => {
    const { id, sensorIds } = await room.device({ sensors: 2 });
    const states = sensorIds.map((sensorId) => ({ sensorId, valueTemplate: '1' }));
    const created = await room.create(id, { description: 'first', fPort: 5, expectedSensorStates: states.slice(0, 1) });
    room.clock.advance(1000);
    const updated = await update(created, { name: 'Other', expectedSensorStates: states.slice(1) }, created.etag);
    expect(updated).toMatchObject({ id: created.id, name: 'Other', description: undefined, fPort: undefined, revision: 2, etag: '"2"', createdAt: created.createdAt });
    expect(updated.updatedAt).not.toEqual(created.updatedAt);
    expect(await get(id, created.id)).toEqual(updated);
    // What is no longer expected is free, what is expected now is not.
    await room.sensors.remove('org-1', id, sensorIds.slice(0, 1));
    await expect(room.sensors.remove('org-1', id, sensorIds.slice(1))).rejects.toMatchObject({ reason: 'sensor_in_use' });
  });

  it('are changed and deleted only if the etag fits', async () => {
    const { id } = await room.device();
    const created = await room.create(id);
    await update(created, { name: 'Second' }, created.etag);
    expect(await updateFails(created, { name: 'Third' }, created.etag)).toMatchObject({ code: status.ABORTED, reason: 'changed_meanwhile', metadata: { etag: '"2"' } });
    expect(await removeFails(created, created.etag)).toMatchObject({ code: status.ABORTED, reason: 'changed_meanwhile' });
    await remove(created, '"2"');
    expect(await removeFails(created)).toMatchObject({ code: status.NOT_FOUND, reason: 'command_not_found' });
  });

  it('stay while others query with them', async () => {
    const { id } = await room.device();
    const query = await room.create(id, { name: 'Ask' });
    const user = await room.create(id, { name: 'Set', verificationStrategy: 3, queryCommandId: query.id });
    const error = await removeFails(query);
    expect(error).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'query_command_in_use', metadata: { command_id: query.id, uses: '1' } });
    expect(error.message).toContain('"Set"');
    await update(user, { name: 'Set' });
    await remove(query);
    await remove(user);
    expect((await names(id, 10)).names).toEqual([]);
  });

  it('are listed newest first, page by page, also when made at the same time', async () => {
    const { id } = await room.device();
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      if (name === 'd') room.clock.advance(1);
      await room.create(id, { name });
    }
    const first = await names(id, 2);
    const second = await names(id, 2, first.next);
    const third = await names(id, 2, second.next);
    expect([first.names, second.names, third.names, third.next]).toEqual([['e', 'd'], ['c', 'b'], ['a'], '']);
    const foreign = await callFails(room.client.listCommands.bind(room.client), { id: (await room.device()).id, organizationId: '', pageSize: 2, pageToken: first.next }, AS_ONE);
    expect(foreign).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed', fields: ['pageToken'] });
  });

  it('are at most 200 on a device, however many come at once', async () => {
    const { id } = await room.device();
    for (let at = 0; at < 195; at += 1) await room.create(id, { name: `Command ${at}` });
    const results = await Promise.allSettled(Array.from({ length: 10 }, async (_, at) => await room.create(id, { name: `Late ${at}` })));
    expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(5);
    expect(await room.createFails(id, { name: 'One more' })).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'command_limit_reached' });
    expect((await names(id, 200)).names).toHaveLength(200);
  });

  it('of another organization or device are not found', async () => {
    const { id } = await room.device();
    const other = await room.device();
    const command = await room.create(id);
    const calls = (deviceId: string, commandId: string, headers: typeof AS_ONE): Promise<SeenError>[] => [
      callFails(room.client.getCommand.bind(room.client), { id: deviceId, commandId, organizationId: '' }, headers),
      callFails(room.client.updateCommand.bind(room.client), { id: deviceId, commandId, organizationId: '', command: wireDefinition() }, headers),
      callFails(room.client.deleteCommand.bind(room.client), { id: deviceId, commandId, organizationId: '' }, headers),
    ];
    expect(await reasons(calls(id, command.id, AS_TWO))).toEqual(Array(3).fill('5 device_not_found'));
    expect(await reasons(calls(other.id, command.id, AS_ONE))).toEqual(Array(3).fill('5 command_not_found'));
    expect(await reasons(calls(newId(), command.id, AS_ONE))).toEqual(Array(3).fill('5 device_not_found'));
    const lists = [callFails(room.client.listCommands.bind(room.client), { id, organizationId: '', pageToken: '' }, AS_TWO), callFails(room.client.createCommand.bind(room.client), { id, organizationId: '', command: wireDefinition() }, AS_TWO)];
    expect(await reasons(lists)).toEqual(Array(2).fill('5 device_not_found'));
    expect(await get(id, command.id)).toEqual(command);
  });

  it('hold the sensors and the value types that they expect', async () => {
    const templateId = await room.template();
    const { id, sensorIds } = await room.device({ sensors: 1, templateId });
    const command = await room.create(id, { expectedSensorStates: [{ sensorId: String(sensorIds[0]), valueTemplate: '1' }] });
    const template = { keyNameId: (await room.templates.findTemplates('org-1', [templateId]))[0]?.keyNameId ?? '', valueType: 'string' as const, sensorType: undefined, unitMeasurementId: undefined, description: undefined };
    await expect(room.sensors.setTemplate('org-1', id, String(sensorIds[0]), await room.template())).rejects.toMatchObject({ reason: 'sensor_in_use' });
    await expect(room.templates.update('org-1', templateId, template)).rejects.toMatchObject({ reason: 'template_in_use' });
    await remove(command);
    await room.templates.update('org-1', templateId, template);
    await room.sensors.remove('org-1', id, sensorIds);
  });

  it('go with their device, also those that query with each other', async () => {
    const { id, sensorIds } = await room.device({ sensors: 1 });
    const first = await room.create(id, { name: 'a', expectedSensorStates: [{ sensorId: String(sensorIds[0]), valueTemplate: '1' }] });
    const second = await room.create(id, { name: 'b', queryCommandId: first.id });
    await update(first, { name: 'a', queryCommandId: second.id });
    await room.devices.delete('org-1', id, undefined);
    expect(await room.db.database.db.knex('commands').where('device_id', id)).toEqual([]);
  });
});
