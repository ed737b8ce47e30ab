import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { fromBinary, toJson } from '@bufbuild/protobuf';
import { MemoryLog } from '../support/edge';
import { Tracing } from '../../src/observability/traces/tracing';
import { parseTraceParent } from '../../src/observability/traces/traceParent';
import { engines } from '../support/engines';
import { as, descriptors, encode, startTestApp, type Fields, type TestApp } from '../support/testApp';
import { type CollectedSpan, TraceCollector } from '../support/traceCollector';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const CALLER = 'b7ad6b7169203331';
const PARENT = `00-${TRACE}-${CALLER}-01`;
const DEVICES = '/digitaldevice.v2.DigitalDeviceService';
const COMMANDS = '/actuator_command.v2.ActuatorCommandService';

describe('the traceparent header', () => {
  it.each([`00-${TRACE}-${CALLER}-00`, ` ${PARENT} `, `01-${TRACE}-${CALLER}-01-more`])('is accepted: %s', (header) => {
    expect(parseTraceParent(header)).toMatchObject({ traceId: TRACE, spanId: CALLER, isRemote: true });
  });

  it.each([
    undefined,
    '',
    'nothing',
    `ff-${TRACE}-${CALLER}-01`,
    `00-${'0'.repeat(32)}-${CALLER}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `${PARENT}-more`,
    PARENT.toUpperCase(),
  ])('is ignored if it is invalid: %s', (header) => {
    expect(parseTraceParent(header)).toBeUndefined();
  });
});

describe.each(engines())('traces on %s', (engine) => {
  let collector: TraceCollector;
  let app: TestApp;
  let executionId = '';

  // One server runs for all tests. Its stop delivers the remaining spans.
  beforeAll(async () => {
    collector = await TraceCollector.start();
    app = await startTestApp(engine, { 'traces.endpoint': collector.endpoint });
    try {
      const { id: connectionId } = await call('/connection.ConnectionService/CreateConnection', {
        connectorId: 'gateway',
        name: 'Gateway',
      });
      const { id } = await call(`${DEVICES}/CreateDigitalDevice`, {
        name: 'Valve',
        physicalDevice: { clientDeviceId: 'valve', connectionId },
      });
      const { id: commandId } = await call(`${COMMANDS}/CreateCommand`, {
        id,
        command: { name: 'Close', mode: 1, directPayload: '{}', verificationStrategy: 1 },
      });
      await call(`${COMMANDS}/PreviewEncoder`, {
        id,
        customEncoder: 'function encodeDownlink() { return { bytes: [1] }; }',
      });
      executionId = String(
        (await call(`${COMMANDS}/ExecuteCommand`, { id, commandId }, { traceparent: PARENT }))['executionId'],
      );
      await call(`${COMMANDS}/CancelExecution`, { executionId });
    } finally {
      await app.stop();
      collector.stop();
    }
  });

  async function call(
    path: string,
    fields: Fields,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Record<string, unknown>> {
    const descriptor = descriptors.methods.get(path);
    if (!descriptor) throw new Error(`${path} is no method`);
    const { answer, error } = await app.send(descriptor, encode(descriptor.request, fields), {
      ...as(app.key, app.organizationId),
      ...headers,
    });
    if (!answer) throw new Error(`${path}: ${error?.message}`);
    return toJson(descriptor.response, fromBinary(descriptor.response, answer)) as Record<string, unknown>;
  }

  const parseSpan = (name: string): CollectedSpan => {
    const span = collector.spans.find((one) => one.name === name);
    if (!span) throw new Error(`there is no span ${name} among ${collector.spans.map((one) => one.name).join(', ')}`);
    return span;
  };
  const listParts = ({ spanId }: CollectedSpan): string[] =>
    collector.spans.filter(({ parentSpanId }) => parentSpanId === spanId).map(({ name }) => name);

  it('start with each call, and continue those of the caller', () => {
    expect(parseSpan('actuator_command.v2.ActuatorCommandService/ExecuteCommand')).toMatchObject({
      traceId: TRACE,
      parentSpanId: CALLER,
      attributes: { 'rpc.method': 'ExecuteCommand', 'rpc.response.status_code': 'OK' },
    });
    expect(parseSpan('digitaldevice.v2.DigitalDeviceService/CreateDigitalDevice').parentSpanId).toBeUndefined();
  });

  it('show what a call waited for', () => {
    expect(listParts(parseSpan('digitaldevice.v2.DigitalDeviceService/CreateDigitalDevice'))).toContain(
      'database transaction',
    );
    expect(listParts(parseSpan('actuator_command.v2.ActuatorCommandService/PreviewEncoder'))).toContain('run encoder');
  });

  it('follow an execution to its end, linked to its call', () => {
    const execution = parseSpan('execution');
    const call = parseSpan('actuator_command.v2.ActuatorCommandService/ExecuteCommand');
    expect(execution).toMatchObject({
      links: [{ traceId: TRACE, spanId: call.spanId }],
      attributes: { 'plantroom.execution_id': executionId, 'plantroom.execution.state': 'transport_unreachable' },
    });
    expect(execution.attributes).not.toHaveProperty(['plantroom.execution.detail']); // it may be content from a gateway
    expect(execution.traceId).not.toBe(TRACE);
    expect(listParts(execution)).toContain('enqueued');
  });

  it('contain no key', () => {
    expect(collector.text).not.toContain(app.key);
    expect(collector.text).toContain(executionId);
  });
});

it('do not affect callers if the collector is missing: it is logged once, and a stop does not wait for it', async () => {
  const closedServer = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => closedServer.once('listening', resolve));
  const { port } = closedServer.address() as AddressInfo;
  await new Promise((resolve) => closedServer.close(resolve));
  const log = new MemoryLog();
  const traces = new Tracing({ endpoint: `http://127.0.0.1:${port}/v1/traces`, samplePercent: 100, version: '1', log });
  for (let n = 0; n < 1100; n += 1)
    traces.calls
      .onCallStarted({
        path: '/a.B/C',
        kind: 'unary',
        isKnown: true,
        transport: 'grpc',
        requestId: String(n),
        traceparent: undefined,
      })
      ?.onCallEnded({ code: 'OK', reason: undefined, http: undefined });
  await traces.stop();
  expect(log.lines.filter(({ event }) => event === 'traces.export_failed').length).toBeLessThanOrEqual(1);
});
