import { status } from '@grpc/grpc-js';
import {
  type Command,
  type CommandDefinition,
  type ListCommandsRequest,
  type ListCommandsResponse,
  UpdateCommandRequest,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { newId } from '../../src/kernel/ids';
import { ProfileImports, ProfileRemoval } from '../../src/profiles';
import { call, callFails, type GrpcErrorInfo } from '../support/edge';
import { sqliteOnly } from '../support/engines';
import { createCodec, getModel, getProfile, getVendor } from '../support/vendors';
import { AS_ONE, startCommandFixture, wireDefinition, type CommandFixture } from './commandFixture';

const ENCODER =
  '\uFEFF// opens a sluice\r\nfunction encodeDownlink(input) { return { bytes: [1, input.data.position], fPort: 7 }; }\r\n';
const NEWER = 'function encodeDownlink(input) { return { bytes: [2, input.data.position], fPort: 7 }; }';
const OWN = 'function encodeDownlink() { return { bytes: [3], fPort: 7 }; }';
const MAX_SCRIPT = `//${'\u00e4'.repeat(131_071)}`;
const SLUICE = 'halmwind/sluice/1.0/EU868';
const UNKNOWN = 'halmwind/sluice/9.9/EU868';
const FIELD = 'command.encoderProfileId';

/** A definition whose encoder comes from the profile. */
const fromProfile = (
  encoderProfileId: string,
  overrides: Partial<CommandDefinition> = {},
): Partial<CommandDefinition> => ({
  mode: 2,
  directPayload: undefined,
  encoderProfileId,
  ...overrides,
});
const updateRequest = (command: Command, definition: Partial<CommandDefinition>) =>
  UpdateCommandRequest.fromPartial({
    id: command.deviceId,
    commandId: command.id,
    command: wireDefinition(definition),
  });
/** Converts a definition from a response to a request. */
const toRequest = (command: Command): Partial<CommandDefinition> =>
  wireDefinition({ ...command, directPayload: command.directPayload });
/** Returns all fields of a command except those of its last change. */
const omitLastChange = ({ revision: _revision, etag: _etag, updatedAt: _updatedAt, ...rest }: Command): object => rest;
/**
 * Imports a vendor with one model per encoder, whose profile is `halmwind/<name>/1.0/EU868`. null: the codec only
 * decodes; undefined: no codec.
 */
const importVendor = (encoders: Readonly<Record<string, string | null | undefined>>) =>
  getVendor({
    id: 'halmwind',
    name: 'Halmwind',
    models: Object.entries(encoders).map(([id, script]) =>
      getModel({ id, name: id, profiles: [getProfile({ codec: script === undefined ? undefined : id })] }),
    ),
    codecs: Object.entries(encoders).flatMap(([id, script]) =>
      script === undefined
        ? []
        : [
            createCodec(id, {
              decoder: 'function decodeUplink() { return { data: {} }; }',
              ...(script !== null && { encoder: script }),
            }),
          ],
    ),
  });

describe.each(sqliteOnly())('commands with the encoder of a profile on $name', (engine) => {
  let fixture: CommandFixture;
  let id: string;
  beforeAll(async () => {
    fixture = await startCommandFixture(engine);
  });
  beforeEach(async () => {
    ({ id } = await fixture.device());
    await imported({ sluice: ENCODER, gauge: null, bell: undefined });
  });
  afterAll(async () => await fixture.stop());

  async function imported(encoders: Readonly<Record<string, string | null | undefined>>): Promise<void> {
    await new ProfileImports({ database: fixture.db.database, clock: fixture.clock }).store(
      'lorawan-devices',
      importVendor(encoders),
    );
  }
  async function removed(profileId: string): Promise<void> {
    await new ProfileRemoval({ database: fixture.db.database, uses: async () => new Map() }).remove({
      ids: [profileId],
    });
  }
  const update = async (command: Command, definition: Partial<CommandDefinition>): Promise<Command> =>
    await call(fixture.client.updateCommand.bind(fixture.client), updateRequest(command, definition), AS_ONE);
  const updateFails = async (command: Command, definition: Partial<CommandDefinition>): Promise<GrpcErrorInfo> =>
    await callFails(fixture.client.updateCommand.bind(fixture.client), updateRequest(command, definition), AS_ONE);
  const get = async (command: Command): Promise<Command> =>
    await call(
      fixture.client.getCommand.bind(fixture.client),
      { id: command.deviceId, commandId: command.id, organizationId: '' },
      AS_ONE,
    );

  it("store a copy of the vendor's script, and return both the copy and the profile", async () => {
    const created = await fixture.create(id, fromProfile(SLUICE));
    expect(created).toMatchObject({ customEncoder: ENCODER, encoderProfileId: SLUICE, revision: 1 });
    expect(await get(created)).toEqual(created);
    const listed = await call<ListCommandsRequest, ListCommandsResponse>(
      fixture.client.listCommands.bind(fixture.client),
      { id, organizationId: '', pageToken: '' },
      AS_ONE,
    );
    expect(listed.commands).toEqual([created]);
  });

  it('keep a script that is given with the profile, which is then only its origin', async () => {
    for (const [at, profileId] of [SLUICE, 'halmwind/gauge/1.0/EU868', 'halmwind/bell/1.0/EU868'].entries()) {
      expect(await fixture.create(id, fromProfile(profileId, { name: `Own ${at}`, customEncoder: OWN }))).toMatchObject(
        {
          customEncoder: OWN,
          encoderProfileId: profileId,
        },
      );
    }
    const command = await fixture.create(id, fromProfile(SLUICE));
    expect(await update(command, fromProfile(SLUICE, { customEncoder: OWN }))).toMatchObject({
      customEncoder: OWN,
      encoderProfileId: SLUICE,
    });
    expect(await update(command, { mode: 2, directPayload: undefined, customEncoder: OWN })).toMatchObject({
      customEncoder: OWN,
      encoderProfileId: undefined,
    });
  });

  it('treat an empty script as missing', async () => {
    expect((await fixture.create(id, fromProfile(SLUICE, { customEncoder: '' }))).customEncoder).toBe(ENCODER);
  });

  it('copy the script of a profile on an update, as on creation', async () => {
    const direct = await fixture.create(id);
    expect(await update(direct, fromProfile(SLUICE))).toMatchObject({
      customEncoder: ENCODER,
      directPayload: undefined,
      revision: 2,
    });
    expect(await update(direct, {})).toMatchObject({
      customEncoder: undefined,
      encoderProfileId: undefined,
      directPayload: '{"on": true}',
      revision: 3,
    });
    const own = await fixture.create(id, { name: 'Own', mode: 2, directPayload: undefined, customEncoder: OWN });
    expect((await update(own, fromProfile(SLUICE, { name: 'Own' }))).customEncoder).toBe(ENCODER);
  });

  it('are unchanged when they are written back as they were read', async () => {
    const created = await fixture.create(id, fromProfile(SLUICE, { encodedParamsTemplate: { position: 1 }, fPort: 9 }));
    fixture.clock.advance(1000);
    const back = await update(created, toRequest(created));
    expect(omitLastChange(back)).toEqual(omitLastChange(created));
    expect([back.revision, back.updatedAt]).not.toEqual([created.revision, created.updatedAt]);
  });

  it('keep their copy after another import, and take the new script on an update without a script', async () => {
    const created = await fixture.create(id, fromProfile(SLUICE));
    await imported({ sluice: NEWER });
    expect(await get(created)).toEqual(created);
    expect((await update(created, toRequest(created))).customEncoder).toBe(ENCODER);
    expect((await update(created, fromProfile(SLUICE))).customEncoder).toBe(NEWER);
    expect((await fixture.create(id, fromProfile(SLUICE, { name: 'Later' }))).customEncoder).toBe(NEWER);
  });

  it('keep their copy when the profile is removed, and can still be written back, also with another script', async () => {
    const created = await fixture.create(id, fromProfile(SLUICE));
    const bell = 'halmwind/bell/1.0/EU868';
    const other = await fixture.create(id, fromProfile(bell, { name: 'Other', customEncoder: OWN }));
    await removed(SLUICE);
    expect(await get(created)).toEqual(created);
    expect(omitLastChange(await update(created, toRequest(created)))).toEqual(omitLastChange(created));
    expect((await update(created, fromProfile(SLUICE, { customEncoder: OWN }))).customEncoder).toBe(OWN);
    const wrong = { code: status.INVALID_ARGUMENT, reason: 'validation_failed', fields: [FIELD] };
    expect(await updateFails(created, fromProfile(SLUICE))).toMatchObject(wrong);
    expect(await updateFails(other, fromProfile(SLUICE, { name: 'Other', customEncoder: OWN }))).toMatchObject(wrong);
    expect(await fixture.createFails(id, fromProfile(SLUICE, { name: 'New', customEncoder: OWN }))).toMatchObject(
      wrong,
    );
    // When the message has another fault, the profile is validated on another code path.
    expect((await updateFails(created, fromProfile(SLUICE, { name: '', customEncoder: OWN }))).fields).toEqual([
      'command.name',
    ]);
    expect((await updateFails(other, fromProfile(SLUICE, { name: '', customEncoder: OWN }))).fields.toSorted()).toEqual(
      [FIELD, 'command.name'],
    );
  });

  it.each([
    [
      'a profile that was never imported',
      fromProfile(UNKNOWN),
      /^profile not found; use .* ListDeviceProfiles, .* customEncoder$/,
    ],
    ['a profile together with a script', fromProfile(UNKNOWN, { customEncoder: OWN }), /^profile not found/],
    ['another spelling of its id', fromProfile('HALMWIND/sluice/1.0/EU868'), /^profile not found/],
    [
      'a profile whose codec only decodes',
      fromProfile('halmwind/gauge/1.0/EU868'),
      /^is a profile without a downlink encoder; use .*encodesDownlinks.* customEncoder$/,
    ],
    ['a profile without a codec', fromProfile('halmwind/bell/1.0/EU868'), /^is a profile without a downlink encoder/],
    ['a profile without an id', fromProfile(''), /^must have 1 to 512 characters \(got 0\)$/],
    ['an id that is too long', fromProfile('x'.repeat(513)), /^must have 1 to 512 characters \(got 513\)$/],
    ['an id that no database accepts', fromProfile('halm\0wind'), /NUL/],
  ])('may not name %s', async (_name, definition, words) => {
    const command = await fixture.create(id);
    for (const error of [await fixture.createFails(id, definition), await updateFails(command, definition)]) {
      expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed', fields: [FIELD] });
      expect(error.violations[FIELD]).toMatch(words);
    }
    expect(await get(command)).toEqual(command);
  });

  it('are rejected with the fault of the profile together with all other faults', async () => {
    const definition = fromProfile(UNKNOWN, {
      queryCommandId: newId(),
      expectedSensorStates: [{ sensorId: newId(), valueTemplate: '1' }],
    });
    const references = [FIELD, 'command.expectedSensorStates[0].sensorId', 'command.queryCommandId'];
    expect((await fixture.createFails(id, definition)).fields.toSorted()).toEqual(references);
    const command = await fixture.create(id);
    for (const error of [
      await fixture.createFails(id, { ...definition, name: '', directPayload: '1' }),
      await updateFails(command, { ...definition, name: '', directPayload: '1' }),
    ]) {
      expect(error.fields.toSorted()).toEqual([
        'command.directPayload',
        ...references.slice(0, 2),
        'command.name',
        references[2],
      ]);
    }
    // The database is not queried for fields that the mode rejects, or for an unknown device.
    expect((await fixture.createFails(id, { encoderProfileId: UNKNOWN, name: '' })).violations[FIELD]).toMatch(
      /is not allowed in mode direct/,
    );
    expect((await fixture.createFails(newId(), fromProfile(UNKNOWN, { name: '' }))).fields).toEqual(['command.name']);
    expect((await fixture.createFails(newId(), fromProfile(UNKNOWN))).reason).toBe('device_not_found');
    expect(
      (await fixture.createFails(id, { mode: 2, directPayload: undefined })).violations['command.customEncoder'],
    ).toMatch(/is required in mode encoded; set it or encoderProfileId/);
  });

  it('reject a script that could not be written back, and accept the largest possible one', async () => {
    await imported({
      sluice: `${MAX_SCRIPT}x`,
      gauge: 'function encodeDownlink() { return "\0"; }',
      bell: '',
      horn: MAX_SCRIPT,
    });
    const fails = async (name: string) =>
      (await fixture.createFails(id, fromProfile(`halmwind/${name}/1.0/EU868`))).violations[FIELD];
    expect(await fails('sluice')).toMatch(
      /^is a profile whose encoder has 262145 bytes: at most 262144 are allowed; use /,
    );
    expect(await fails('gauge')).toMatch(/^is a profile whose encoder contains a NUL character; use /);
    expect(await fails('bell')).toMatch(/^is a profile without a downlink encoder/);
    const created = await fixture.create(id, fromProfile('halmwind/horn/1.0/EU868'));
    expect(omitLastChange(await update(created, toRequest(created)))).toEqual(omitLastChange(created));
  });

  it('get either the old or the new script when they are created during an import', async () => {
    const devices = await Promise.all(Array.from({ length: 8 }, async () => await fixture.device()));
    const creations: Promise<Command>[] = [];
    for (const [at, script] of [NEWER, ENCODER, NEWER].entries()) {
      creations.push(
        ...devices.map(
          async (device) => await fixture.create(device.id, fromProfile(SLUICE, { name: `Command ${at}` })),
        ),
      );
      await imported({ sluice: script });
    }
    const scripts = (await Promise.all(creations)).map((command) => command.customEncoder);
    expect(scripts).toHaveLength(24);
    expect(scripts.filter((script) => script !== ENCODER && script !== NEWER)).toEqual([]);
    expect((await fixture.create(id, fromProfile(SLUICE))).customEncoder).toBe(NEWER);
  });
});
