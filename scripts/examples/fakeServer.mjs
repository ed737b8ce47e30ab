// A fake server that behaves as a real one does only rarely.
import { Metadata, Server, ServerCredentials, status } from '@grpc/grpc-js';
import { loadFileDescriptorSetFromBuffer } from '@grpc/proto-loader';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const EXECUTION = 'execution-1';
/** The retry delay of its error, in milliseconds: longer than the first delay of a client. */
export const RETRY_AFTER_MS = 1500;

/**
 * Starts a server with one finished execution. It rejects the first read of the execution. `calls` records the number of
 * `executed` commands, the tokens of `watches`, and the times of `reads`. `bundle`: the folder of the protos; `tls`: the
 * folder of the server certificates.
 */
export async function startFakeServer({ bundle, tls }) {
  const protos = loadFileDescriptorSetFromBuffer(readFileSync(join(bundle, 'plantroom.binpb')), { defaults: true });
  const calls = { executed: 0, watches: [], reads: [] };
  const server = new Server();
  server.addService(protos['digitaldevice.v2.DigitalDeviceService'], {
    ListDigitalDevices: (_, callback) => callback(null, { devices: [] }),
  });
  server.addService(protos['actuator_command.v2.ActuatorCommandService'], {
    ExecuteCommand: (_, callback) => {
      calls.executed += 1;
      callback(null, { accepted: true, execution_id: EXECUTION });
    },
    WatchExecutions: (call) => {
      calls.watches.push(call.request.resume_token);
      call.write({ resume_token: 'token-1' });
      // No further events follow.
      if (calls.watches.length > 1 && call.request.ends_when_final) call.end();
    },
    GetExecution: (_, callback) => {
      calls.reads.push(performance.now());
      if (calls.reads.length === 1) callback(createRateLimitError(protos));
      else callback(null, { id: EXECUTION, state: 'EXECUTION_STATE_CONVERGED', finished_at: { seconds: 1, nanos: 0 } });
    },
  });
  const read = (name) => readFileSync(join(tls, `${name}.pem`));
  const port = await new Promise((resolve, reject) =>
    server.bindAsync(
      '127.0.0.1:0',
      ServerCredentials.createSsl(null, [{ private_key: read('server-key'), cert_chain: read('server') }]),
      (error, bound) => (error ? reject(error) : resolve(bound)),
    ),
  );
  return { address: `localhost:${port}`, calls, stop: () => server.forceShutdown() };
}

/** Creates the error `rate_limited` of a Plantroom server. */
function createRateLimitError(protos) {
  const any = (type, value) => ({ type_url: `type.googleapis.com/${type}`, value: protos[type].serialize(value) });
  const details = [
    any('google.rpc.ErrorInfo', { reason: 'rate_limited', domain: 'plantroom' }),
    any('google.rpc.RetryInfo', {
      retry_delay: { seconds: Math.floor(RETRY_AFTER_MS / 1000), nanos: (RETRY_AFTER_MS % 1000) * 1e6 },
    }),
  ];
  const metadata = new Metadata();
  metadata.set(
    'grpc-status-details-bin',
    protos['google.rpc.Status'].serialize({ code: status.RESOURCE_EXHAUSTED, message: 'too many calls', details }),
  );
  return { code: status.RESOURCE_EXHAUSTED, details: 'too many calls', metadata };
}
