import { EncoderPreview, PreviewEncoderRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { GetDigitalDeviceRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { HOSTILE, usualEncoder } from './encoders';
import { ask, DEVICES, richDevice, target } from './fleet';
import { type Load, type Measured, run } from './load';
import { row, say, short } from './measure';
import { PlantroomServer } from './plantroomServer';
import { COMMANDS } from './site';

const PREVIEW = `${COMMANDS}/PreviewEncoder`;
const SCRIPT_BYTES = 16 * 1024;
const rounds = short ? 2 : 5;
const milliseconds = short ? 400 : 2000;

/** Previews of encoders, and what a call that has nothing to do with them feels of hostile ones. The server has all cores: the sandbox has threads of its own. */
export async function benchPreviews(): Promise<void> {
  say('\npreviews of an encoder of 16 KiB, and a bystander while four hostile ones run; TLS on, server on all cores (goals: preview p50 2 ms, bystander p99 50 ms)');
  const server = await PlantroomServer.start({}, { isPinned: false });
  try {
    const id = await richDevice(server, server.key);
    const preview = previewOf(id, usualEncoder(SCRIPT_BYTES));
    await checkPreview(server, preview(1));
    const load = { ...target(server, server.key, PREVIEW), message: preview };
    for (const concurrency of [1, 8]) await inTurns(`PreviewEncoder, ${concurrency} at once`, server, { ...load, concurrency });
    const get = GetDigitalDeviceRequest.encode(GetDigitalDeviceRequest.fromPartial({ id })).finish();
    const bystander = { ...target(server, server.key, `${DEVICES}/GetDigitalDevice`), message: () => get, concurrency: 4 };
    await inTurns('GetDigitalDevice, 4 at once, nothing else', server, bystander);
    const hostile = HOSTILE.map((script) => keepRunning(server, previewOf(id, script)));
    await inTurns('GetDigitalDevice, 4 at once, beside 4 hostile encoders', server, bystander);
    for (const stop of hostile) await stop();
    await inTurns('PreviewEncoder, 1 at once, after them', server, { ...load, concurrency: 1 });
  } finally {
    await server.remove();
  }
}

function previewOf(id: string, customEncoder: string): (n: number) => Uint8Array {
  return (n) => PreviewEncoderRequest.encode(PreviewEncoderRequest.fromPartial({ id, customEncoder, params: { setting: 'setting3', value: n % 90, keep: true } })).finish();
}

/** What is measured has to work. */
async function checkPreview(server: PlantroomServer, message: Uint8Array): Promise<void> {
  const { output, error, executionTimeMs } = EncoderPreview.decode(await ask(server, server.key, PREVIEW, message));
  if (!output) throw new Error(`the usual encoder failed: ${error?.code} ${error?.message}`);
  say(`  the first took ${executionTimeMs.toFixed(1)} ms in the sandbox`);
}

async function inTurns(name: string, server: PlantroomServer, load: Load): Promise<void> {
  const turns: (Measured & { cpu: number })[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    const before = server.process.cpuMilliseconds();
    const measured = await run({ ...load, milliseconds });
    if (round > 0) turns.push({ ...measured, cpu: ((server.process.cpuMilliseconds() - before) * 1000) / measured.calls }); // the first warms up
  }
  row(name, turns);
}

/** Previews the same again and again; answers how to stop it. Each answer is OK and says what went wrong. */
function keepRunning(server: PlantroomServer, message: (n: number) => Uint8Array): () => Promise<void> {
  const stopping = new AbortController();
  const load = { ...target(server, server.key, PREVIEW), message, concurrency: 1, calls: 1 };
  const running = (async () => {
    while (!stopping.signal.aborted) {
      const { failed } = await run(load);
      if (failed > 0) throw new Error('a hostile preview was not answered');
    }
  })();
  running.catch(() => {}); // told to whoever stops it
  return async () => {
    stopping.abort();
    await running;
  };
}
