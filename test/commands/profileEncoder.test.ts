import { status } from '@grpc/grpc-js';
import { type Command, type CommandDefinition, type ListCommandsRequest, type ListCommandsResponse, UpdateCommandRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { newId } from '../../src/kernel/ids';
import { ProfileImports, ProfileRemoval } from '../../src/profiles';
import { call, callFails, type SeenError } from '../support/edge';
import { engines } from '../support/engines';
import { codecOf, modelOf, profileOf, vendorOf } from '../support/vendors';
import { AS_ONE, startCommandRoom, wireDefinition, type CommandRoom } from './commandRoom';

const ENCODER = '\uFEFF// opens a sluice\r\nfunction encodeDownlink(input) { return { bytes: [1, input.data.position], fPort: 7 }; }\r\n';
const NEWER = 'function encodeDownlink(input) { return { bytes: [2, input.data.position], fPort: 7 }; }';
const OWN = 'function encodeDownlink() { return { bytes: [3], fPort: 7 }; }';
const LARGEST = `//${'\u00e4'.repeat(131_071)}`;
const SLUICE = 'halmwind/sluice/1.0/EU868';
const UNKNOWN = 'halmwind/sluice/9.9/EU868';
const FIELD = 'command.encoderProfileId';

/** A definition whose encoder comes from the profile. */
const from = (encoderProfileId: string, overrides: Partial<CommandDefinition> = {}): Partial<CommandDefinition> => ({ mode: 2, directPayload: undefined, encoderProfileId, ...overrides });
const updateRequest = (command: Command, definition: Partial<CommandDefinition>) => UpdateCommandRequest.fromPartial({ id: command.deviceId, commandId: command.id, command: wireDefinition(definition) });
/** What was answered, as a definition to be given. */
const written = (command: Command): Partial<CommandDefinition> => wireDefinition({ ...command, directPayload: command.directPayload });
/** All of a command that is not of its last change. */
const lasting = ({ revision: _revision, etag: _etag, updatedAt: _updatedAt, ...rest }: Command): object => rest;
/** A vendor with one model for each encoder, whose profile is `halmwind/<name>/1.0/EU868`; null: its codec only decodes, undefined: it has none. */
const vendorWith = (encoders: Readonly<Record<string, string | null | undefined>>) =>
  vendorOf({
    id: 'halmwind',
    name: 'Halmwind',
    models: Object.entries(encoders).map(([id, script]) => modelOf({ id, name: id, profiles: [profileOf({ codec: script === undefined ? undefined : id })] })),
    codecs: Object.entries(encoders).flatMap(([id, script]) => (script === undefined ? [] : [codecOf(id, { decoder: 'function decodeUplink() { return { data: {} }; }', ...(script !== null && { encoder: script }) })])),
  });

describe.each(engines())('commands with the encoder of a profile on $name', (engine) => {
  let room: CommandRoom;
  let id: string;
  beforeAll(async () => {
    room = await startCommandRoom(engine);
  });
  beforeEach(async () => {
    ({ id } = await room.device());
    await imported({ sluice: ENCODER, gauge: null, bell: undefined });
  });
  afterAll(async () => await room.stop());

  async function imported(encoders: Readonly<Record<string, string | null | undefined>>): Promise<void> {
    await new ProfileImports({ database: room.db.database, clock: room.clock }).store('lorawan-devices', vendorWith(encoders));
  }
  async function removed(profileId: string): Promise<void> {
    await new ProfileRemoval({ database: room.db.database, uses: async () => new Map() }).remove({ ids: [profileId] });
  }
  const update = async (command: Command, definition: Partial<CommandDefinition>): Promise<Command> => await call(room.client.updateCommand.bind(room.client), updateRequest(command, definition), AS_ONE);
  const updateFails = async (command: Command, definition: Partial<CommandDefinition>): Promise<SeenError> => await callFails(room.client.updateCommand.bind(room.client), updateRequest(command, definition), AS_ONE);
  const get = async (command: Command): Promise<Command> => await call(room.client.getCommand.bind(room.client), { id: command.deviceId, commandId: command.id, organizationId: '' }, AS_ONE);

  it('hold a copy of it as the vendor wrote it, and answer both', async () => {
    const created = await room.create(id, from(SLUICE));
    expect(created).toMatchObject({ customEncoder: ENCODER, encoderProfileId: SLUICE, revision: 1 });
    expect(await get(created)).toEqual(created);
    const listed = await call<ListCommandsRequest, ListCommandsResponse>(room.client.listCommands.bind(room.client), { id, organizationId: '', pageToken: '' }, AS_ONE);
    expect(listed.commands).toEqual([created]);
  });

  it('keep the script that is given beside the profile, which then only says where it came from', async () => {
    for (const [at, profileId] of [SLUICE, 'halmwind/gauge/1.0/EU868', 'halmwind/bell/1.0/EU868'].entries()) {
      expect(await room.create(id, from(profileId, { name: `Own ${at}`, customEncoder: OWN }))).toMatchObject({ customEncoder: OWN, encoderProfileId: profileId });
    }
    const command = await room.create(id, from(SLUICE));
    expect(await update(command, from(SLUICE, { customEncoder: OWN }))).toMatchObject({ customEncoder: OWN, encoderProfileId: SLUICE });
    expect(await update(command, { mode: 2, directPayload: undefined, customEncoder: OWN })).toMatchObject({ customEncoder: OWN, encoderProfileId: undefined });
  });

  it('take an empty script for none', async () => {
    expect((await room.create(id, from(SLUICE, { customEncoder: '' }))).customEncoder).toBe(ENCODER);
  });

  it('take the script of a profile on an update, as they do when they are created', async () => {
    const direct = await room.create(id);
    expect(await update(direct, from(SLUICE))).toMatchObject({ customEncoder: ENCODER, directPayload: undefined, revision: 2 });
    expect(await update(direct, {})).toMatchObject({ customEncoder: undefined, encoderProfileId: undefined, directPayload: '{"on": true}', revision: 3 });
    const own = await room.create(id, { name: 'Own', mode: 2, directPayload: undefined, customEncoder: OWN });
    expect((await update(own, from(SLUICE, { name: 'Own' }))).customEncoder).toBe(ENCODER);
  });

  it('change in nothing when they are written back as they were read', async () => {
    const created = await room.create(id, from(SLUICE, { encodedParamsTemplate: { position: 1 }, fPort: 9 }));
    room.clock.advance(1000);
    const back = await update(created, written(created));
    expect(lasting(back)).toEqual(lasting(created));
    expect([back.revision, back.updatedAt]).not.toEqual([created.revision, created.updatedAt]);
  });

  it('keep their copy after an import of another one, and take that when they are updated without a script', async () => {
    const created = await room.create(id, from(SLUICE));
    await imported({ sluice: NEWER });
    expect(await get(created)).toEqual(created);
    expect((await update(created, written(created))).customEncoder).toBe(ENCODER);
    expect((await update(created, from(SLUICE))).customEncoder).toBe(NEWER);
    expect((await room.create(id, from(SLUICE, { name: 'Later' }))).customEncoder).toBe(NEWER);
  });

  it('keep their copy when the profile is removed, and can still be written back, with another script too', async () => {
    const created = await room.create(id, from(SLUICE));
    const bell = 'halmwind/bell/1.0/EU868';
    const other = await room.create(id, from(bell, { name: 'Other', customEncoder: OWN }));
    await removed(SLUICE);
    expect(await get(created)).toEqual(created);
    expect(lasting(await update(created, written(created)))).toEqual(lasting(created));
    expect((await update(created, from(SLUICE, { customEncoder: OWN }))).customEncoder).toBe(OWN);
    const wrong = { code: status.INVALID_ARGUMENT, reason: 'validation_failed', fields: [FIELD] };
    expect(await updateFails(created, from(SLUICE))).toMatchObject(wrong);
    expect(await updateFails(other, from(SLUICE, { name: 'Other', customEncoder: OWN }))).toMatchObject(wrong);
    expect(await room.createFails(id, from(SLUICE, { name: 'New', customEncoder: OWN }))).toMatchObject(wrong);
    // With a fault of the message beside it, it is looked at on another way.
    expect((await updateFails(created, from(SLUICE, { name: '', customEncoder: OWN }))).fields).toEqual(['command.name']);
    expect((await updateFails(other, from(SLUICE, { name: '', customEncoder: OWN }))).fields.toSorted()).toEqual([FIELD, 'command.name']);
  });

  it.each([
    ['a profile that was never imported', from(UNKNOWN), /^no such profile was imported; give .* ListDeviceProfiles .* customEncoder$/],
    ['one beside a script', from(UNKNOWN, { customEncoder: OWN }), /^no such profile was imported/],
    ['another spelling of its id', from('HALMWIND/sluice/1.0/EU868'), /^no such profile was imported/],
    ['a profile whose codec only decodes', from('halmwind/gauge/1.0/EU868'), /^is a profile that encodes no downlinks; give .*encodesDownlinks.* customEncoder$/],
    ['a profile without a codec', from('halmwind/bell/1.0/EU868'), /^is a profile that encodes no downlinks/],
    ['no id at all', from(''), /^is 0 characters long/],
    ['too long an id', from('x'.repeat(513)), /^is 513 characters long/],
    ['an id that no database takes', from('halm\0wind'), /NUL/],
  ])('may not name %s', async (_name, definition, words) => {
    const command = await room.create(id);
    for (const error of [await room.createFails(id, definition), await updateFails(command, definition)]) {
      expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed', fields: [FIELD] });
      expect(error.violations[FIELD]).toMatch(words);
    }
    expect(await get(command)).toEqual(command);
  });

  it('are told of the profile together with all else that is wrong', async () => {
    const definition = from(UNKNOWN, { queryCommandId: newId(), expectedSensorStates: [{ sensorId: newId(), valueTemplate: '1' }] });
    const references = [FIELD, 'command.expectedSensorStates[0].sensorId', 'command.queryCommandId'];
    expect((await room.createFails(id, definition)).fields.toSorted()).toEqual(references);
    const command = await room.create(id);
    for (const error of [await room.createFails(id, { ...definition, name: '', directPayload: '1' }), await updateFails(command, { ...definition, name: '', directPayload: '1' })]) {
      expect(error.fields.toSorted()).toEqual(['command.directPayload', ...references.slice(0, 2), 'command.name', references[2]]);
    }
    // Of what the mode refuses, and of a device that is not there, the database is not asked.
    expect((await room.createFails(id, { encoderProfileId: UNKNOWN, name: '' })).violations[FIELD]).toMatch(/does not belong to mode direct/);
    expect((await room.createFails(newId(), from(UNKNOWN, { name: '' }))).fields).toEqual(['command.name']);
    expect((await room.createFails(newId(), from(UNKNOWN))).reason).toBe('device_not_found');
    expect((await room.createFails(id, { mode: 2, directPayload: undefined })).violations['command.customEncoder']).toMatch(/is required in mode encoded; give it or encoderProfileId/);
  });

  it('take no script that they could not be written back with, and the largest there may be', async () => {
    await imported({ sluice: `${LARGEST}x`, gauge: 'function encodeDownlink() { return "\0"; }', bell: '', horn: LARGEST });
    const fails = async (name: string) => (await room.createFails(id, from(`halmwind/${name}/1.0/EU868`))).violations[FIELD];
    expect(await fails('sluice')).toMatch(/^is a profile whose encoder has 262145 bytes, and a command takes 262144; give /);
    expect(await fails('gauge')).toMatch(/^is a profile whose encoder holds the character NUL; give /);
    expect(await fails('bell')).toMatch(/^is a profile that encodes no downlinks/);
    const created = await room.create(id, from('halmwind/horn/1.0/EU868'));
    expect(lasting(await update(created, written(created)))).toEqual(lasting(created));
  });

  it('that are made while an import runs have the script from before or that from after it', async () => {
    const devices = await Promise.all(Array.from({ length: 8 }, async () => await room.device()));
    const made: Promise<Command>[] = [];
    for (const [at, script] of [NEWER, ENCODER, NEWER].entries()) {
      made.push(...devices.map(async (device) => await room.create(device.id, from(SLUICE, { name: `Command ${at}` }))));
      await imported({ sluice: script });
    }
    const scripts = (await Promise.all(made)).map((command) => command.customEncoder);
    expect(scripts).toHaveLength(24);
    expect(scripts.filter((script) => script !== ENCODER && script !== NEWER)).toEqual([]);
    expect((await room.create(id, from(SLUICE))).customEncoder).toBe(NEWER);
  });
});
