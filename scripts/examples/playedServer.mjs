// A server that is played: it does to a client what a real one does seldom.
import { Metadata, Server, ServerCredentials, status } from '@grpc/grpc-js';
import { loadFileDescriptorSetFromBuffer } from '@grpc/proto-loader';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const EXECUTION = 'execution-1';
/** How long its refusal says that is to be waited, in milliseconds: longer than a client's own first pause. */
export const RETRY_AFTER_MS = 1500;

/**
 * Plays a server with one execution, that has ended when it is looked at. The first read of it is refused. `seen` says what came: how many
 * commands were `executed`, the tokens of `watches`, the times of `reads`. `bundle`: the folder of the protos; `tls`: that of the server's certificates.
 */
export async function playServer({ bundle, tls }) {
  const protos = loadFileDescriptorSetFromBuffer(readFileSync(join(bundle, 'plantroom.binpb')), { defaults: true });
  const seen = { executed: 0, watches: [], reads: [] };
  const server = new Server();
  server.addService(protos['digitaldevice.v2.DigitalDeviceService'], { ListDigitalDevices: (_, answer) => answer(null, { devices: [] }) });
  server.addService(protos['actuator_command.v2.ActuatorCommandService'], {
    ExecuteCommand: (_, answer) => {
      seen.executed += 1;
      answer(null, { accepted: true, execution_id: EXECUTION });
    },
    WatchExecutions: (call) => {
      seen.watches.push(call.request.resume_token);
      call.write({ resume_token: 'token-1' });
      // Nothing happens any more.
      if (seen.watches.length > 1 && call.request.ends_when_final) call.end();
    },
    GetExecution: (_, answer) => {
      seen.reads.push(performance.now());
      if (seen.reads.length === 1) answer(refusal(protos));
      else answer(null, { id: EXECUTION, state: 'EXECUTION_STATE_CONVERGED', finished_at: { seconds: 1, nanos: 0 } });
    },
  });
  const read = (name) => readFileSync(join(tls, `${name}.pem`));
  const port = await new Promise((resolve, reject) => server.bindAsync('127.0.0.1:0', ServerCredentials.createSsl(null, [{ private_key: read('server-key'), cert_chain: read('server') }]), (error, bound) => (error ? reject(error) : resolve(bound))));
  return { address: `localhost:${port}`, seen, stop: () => server.forceShutdown() };
}

/** `rate_limited`, as a Plantroom says it. */
function refusal(protos) {
  const any = (type, value) => ({ type_url: `type.googleapis.com/${type}`, value: protos[type].serialize(value) });
  const details = [any('google.rpc.ErrorInfo', { reason: 'rate_limited', domain: 'plantroom' }), any('google.rpc.RetryInfo', { retry_delay: { seconds: Math.floor(RETRY_AFTER_MS / 1000), nanos: (RETRY_AFTER_MS % 1000) * 1e6 } })];
  const metadata = new Metadata();
  metadata.set('grpc-status-details-bin', protos['google.rpc.Status'].serialize({ code: status.RESOURCE_EXHAUSTED, message: 'too many calls', details }));
  return { code: status.RESOURCE_EXHAUSTED, details: 'too many calls', metadata };
}
