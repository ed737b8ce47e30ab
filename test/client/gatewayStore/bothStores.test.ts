import { type GatewayStore, memoryStore, sqliteStore } from '../../../src/client/gateway';
import { REMEMBERED_COMMANDS } from '../../../src/client/gateway/store/gatewayStore';
import {
  acknowledgeCommand,
  createCommand,
  forgetUplinks,
  IDENTITY,
  storeCommand,
  newFile,
  removeFiles,
  captureError,
  storeUplink,
} from './stores';

const KINDS: readonly (readonly [string, () => GatewayStore])[] = [
  ['memory', () => memoryStore()],
  ['sqlite', () => sqliteStore(newFile())],
];

describe.each(KINDS)('the %s store', (_, createStore) => {
  let store: GatewayStore;

  beforeEach(() => {
    store = createStore();
    store.open(IDENTITY);
  });

  afterEach(() => {
    store.close();
    removeFiles();
  });

  const listIds = (position = 0, max = 100) => store.uplinksAfter(position, max).map(({ uplinkId }) => uplinkId);
  const openIds = () => store.openCommands().map(({ executionId }) => executionId);

  it('keeps commands in the order of arrival, and their stages', () => {
    store.apply([storeCommand('e1'), storeCommand('e2'), storeCommand('e3')]);
    const ended = createCommand('e1', 'ended', { result: 1, code: 'ok', text: 'done', time: 1_700_000_000_500 });
    store.apply([storeCommand('e2', 'started'), { kind: 'command', command: ended }]);
    expect(openIds()).toEqual(['e1', 'e2', 'e3']);
    expect(store.findCommand('e1')).toEqual({ ...ended, message: expect.anything() });
    expect(Buffer.from(store.findCommand('e1')?.message ?? [])).toEqual(Buffer.from('command e1'));
    expect(store.findCommand('e2')).toMatchObject({
      stage: 'started',
      expiresAtUptimeMs: 60_000.5,
      machineStart: 'start-1',
    });
    expect(store.findCommand('e4')).toBeUndefined();
  });

  it('never returns to an earlier stage', () => {
    store.apply([storeCommand('e1', 'started')]);
    store.apply([storeCommand('e1', 'received', { code: 'again' })]);
    store.apply([storeCommand('e1', 'started', { code: 'again' })]);
    expect(store.findCommand('e1')).toMatchObject({ stage: 'started', code: '' });
    store.apply([storeCommand('e1', 'ended', { result: 1 }), storeCommand('e1', 'ended', { result: 3 })]);
    expect(store.findCommand('e1')).toMatchObject({ stage: 'ended', result: 1 });
  });

  it('remembers an acknowledged command by its ID and result, and does not begin it again', () => {
    store.apply([storeCommand('e1', 'ended', { result: 2, code: 'busy', text: 'long', time: 7 }), storeCommand('e2')]);
    store.apply([acknowledgeCommand('e1'), acknowledgeCommand('unknown')]);
    store.apply([storeCommand('e1'), acknowledgeCommand('e1')]);
    expect(openIds()).toEqual(['e2']);
    expect(store.findCommand('e1')).toEqual({
      executionId: 'e1',
      stage: 'acknowledged',
      message: new Uint8Array(0),
      expiresAtUptimeMs: 0,
      machineStart: '',
      time: 7,
      result: 2,
      code: 'busy',
      text: '',
    });
  });

  it('remembers the newest hundred thousand acknowledged commands', () => {
    const ids = Array.from({ length: REMEMBERED_COMMANDS + 5 }, (_, at) => `e${at}`);
    store.apply(ids.flatMap((id) => [storeCommand(id, 'ended'), acknowledgeCommand(id)]));
    expect(store.findCommand('e4')).toBeUndefined();
    expect(store.findCommand('e5')?.stage).toBe('acknowledged');
    expect(store.findCommand(ids.at(-1) ?? '')?.stage).toBe('acknowledged');
  });

  it('keeps uplinks in order until they are acknowledged, each ID once', () => {
    store.apply([storeUplink('u1'), storeUplink('u2'), storeUplink('u3'), storeUplink('u2', 99)]);
    expect([store.uplinkCount, store.uplinkBytes]).toEqual([
      3,
      store.uplinksAfter(0, 9).reduce((sum, { message }) => sum + message.length, 0),
    ]);
    expect(store.uplinksAfter(0, 100).map(({ message }) => message.length)).toEqual([40, 40, 40]);
    store.apply([forgetUplinks('u2'), forgetUplinks('unknown'), forgetUplinks('u2')]);
    expect([listIds(), store.uplinkCount]).toEqual([['u1', 'u3'], 2]);
    expect(store.uplinkBytes).toBe(store.uplinksAfter(0, 9).reduce((sum, { message }) => sum + message.length, 0));
  });

  it('continues after a position whose uplink was deleted', () => {
    store.apply([storeUplink('u1'), storeUplink('u2'), storeUplink('u3')]);
    const [, second] = store.uplinksAfter(0, 2);
    store.apply([forgetUplinks('u1'), forgetUplinks('u2'), forgetUplinks('u3')]);
    expect(listIds(second?.position)).toEqual([]);
    store.apply([storeUplink('u4'), storeUplink('u1')]);
    expect(listIds(second?.position)).toEqual(['u4', 'u1']);
  });

  it('returns pages of bounded count and size', () => {
    store.apply(Array.from({ length: 300 }, (_, at) => storeUplink(`u${at}`, 64 * 1024)));
    const listed: string[] = [];
    for (
      let page = store.uplinksAfter(0, 50), pages = 1;
      page.length > 0;
      page = store.uplinksAfter(page.at(-1)?.position ?? 0, 1000), pages += 1
    ) {
      expect(page.length).toBeLessThanOrEqual(pages === 1 ? 50 : 65);
      listed.push(...page.map(({ uplinkId }) => uplinkId));
    }
    expect(listed).toEqual(Array.from({ length: 300 }, (_, at) => `u${at}`));
  });

  it('finds the next entry after a position in a long row of mostly deleted entries', () => {
    store.apply(Array.from({ length: 5000 }, (_, at) => storeUplink(`u${at}`)));
    const { position } = store.uplinksAfter(0, 2500).at(-1) ?? { position: 0 };
    store.apply(Array.from({ length: 4990 }, (_, at) => forgetUplinks(`u${at + 1}`)));
    expect(listIds()).toEqual(['u0', ...Array.from({ length: 9 }, (_, at) => `u${at + 4991}`)]);
    expect(listIds(position, 2)).toEqual(['u4991', 'u4992']);
  });

  it('has the same content after it is reopened', () => {
    store.apply([
      storeCommand('e1', 'started'),
      storeCommand('e2', 'ended'),
      acknowledgeCommand('e2'),
      storeUplink('u1'),
      storeUplink('u2'),
      forgetUplinks('u1'),
    ]);
    store.close();
    expect(captureError(() => store.apply([storeUplink('u3')])).reason).toBe('store_failed');
    expect(store.open({ connectionId: 'con_1', gatewayId: undefined })).toEqual({ gatewayId: 'gw-1' });
    expect([openIds(), store.findCommand('e2')?.stage, listIds(), store.uplinkCount]).toEqual([
      ['e1'],
      'acknowledged',
      ['u2'],
      1,
    ]);
    store.apply([storeCommand('e3'), storeUplink('u3')]);
    expect([openIds(), listIds()]).toEqual([
      ['e1', 'e3'],
      ['u2', 'u3'],
    ]);
  });

  it('belongs to one gateway of one connection, and to one user at a time', () => {
    expect(captureError(() => store.open(IDENTITY)).reason).toBe('store_in_use');
    store.close();
    const ofConnection = captureError(() => store.open({ ...IDENTITY, connectionId: 'con_2' }));
    expect([ofConnection.reason, ofConnection.message]).toEqual([
      'store_of_another',
      expect.stringMatching(/belongs to the connection con_1, .* con_2; use a separate store for each connection$/),
    ]);
    const ofGateway = captureError(() => store.open({ ...IDENTITY, gatewayId: 'gw-2' }));
    expect([ofGateway.reason, ofGateway.message]).toEqual([
      'store_of_another',
      expect.stringMatching(/belongs to the gateway gw-1, .* gw-2; omit gatewayId/),
    ]);
    expect(store.open(IDENTITY)).toEqual({ gatewayId: 'gw-1' });
  });

  it('generates a gateway ID if none is given, and keeps it', () => {
    const other = createStore();
    const { gatewayId } = other.open({ connectionId: 'con_1', gatewayId: undefined });
    expect(gatewayId).toMatch(/^[0-9a-f-]{36}$/);
    other.close();
    expect(other.open({ connectionId: 'con_1', gatewayId: undefined })).toEqual({ gatewayId });
    other.close();
  });
});
