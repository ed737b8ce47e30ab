import { EncoderPreview, PreviewEncoderRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { GetDigitalDeviceRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { HOSTILE_ENCODERS, createEncoder } from './encoders';
import { callMethod, DEVICES, createFullDevice, toLoadTarget } from './fleet';
import type { Measured } from './latencies';
import { type Load, runLoad } from './load';
import { printRow, print, isShort } from './measure';
import { PlantroomServer } from './plantroomServer';
import { COMMANDS } from './site';

const PREVIEW = `${COMMANDS}/PreviewEncoder`;
const SCRIPT_BYTES = 16 * 1024;
const rounds = isShort ? 2 : 5;
const milliseconds = isShort ? 400 : 2000;

/**
 * Measures previews of encoders, and how hostile encoders affect an unrelated call. The server has all cores, because the
 * codec sandbox has separate threads.
 */
export async function benchPreviews(): Promise<void> {
  print(
    '\npreviews of an encoder of 16 KiB, and an unrelated call while four hostile encoders run; TLS on, server on all cores (goals: preview p50 2 ms, unrelated call p99 50 ms)',
  );
  const server = await PlantroomServer.start({}, { isPinned: false });
  try {
    const id = await createFullDevice(server, server.key);
    const preview = createPreviewEncoder(id, createEncoder(SCRIPT_BYTES));
    await checkPreview(server, preview(1));
    const load = { ...toLoadTarget(server, server.key, PREVIEW), message: preview };
    for (const concurrency of [1, 8])
      await measureRounds(`PreviewEncoder, ${concurrency} concurrent`, server, { ...load, concurrency });
    const get = GetDigitalDeviceRequest.encode(GetDigitalDeviceRequest.fromPartial({ id })).finish();
    const unrelatedLoad = {
      ...toLoadTarget(server, server.key, `${DEVICES}/GetDigitalDevice`),
      message: () => get,
      concurrency: 4,
    };
    await measureRounds('GetDigitalDevice, 4 concurrent, idle server', server, unrelatedLoad);
    const hostile = HOSTILE_ENCODERS.map((script) => runUntilStopped(server, createPreviewEncoder(id, script)));
    await measureRounds('GetDigitalDevice, 4 concurrent, with 4 hostile encoders', server, unrelatedLoad);
    for (const stop of hostile) await stop();
    await measureRounds('PreviewEncoder, 1 concurrent, afterwards', server, { ...load, concurrency: 1 });
  } finally {
    await server.remove();
  }
}

function createPreviewEncoder(id: string, customEncoder: string): (n: number) => Uint8Array {
  return (n) =>
    PreviewEncoderRequest.encode(
      PreviewEncoderRequest.fromPartial({
        id,
        customEncoder,
        params: { setting: 'setting3', value: n % 90, keep: true },
      }),
    ).finish();
}

/** Checks that the preview works. */
async function checkPreview(server: PlantroomServer, message: Uint8Array): Promise<void> {
  const { output, error, executionTimeMs } = EncoderPreview.decode(
    await callMethod(server, server.key, PREVIEW, message),
  );
  if (!output) throw new Error(`the default encoder failed: ${error?.code} ${error?.message}`);
  print(`  the first preview took ${executionTimeMs.toFixed(1)} ms in the sandbox`);
}

async function measureRounds(name: string, server: PlantroomServer, load: Load): Promise<void> {
  const turns: (Measured & { cpu: number })[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    const before = server.process.cpuMilliseconds();
    const measured = await runLoad({ ...load, milliseconds });
    if (round > 0)
      turns.push({ ...measured, cpu: ((server.process.cpuMilliseconds() - before) * 1000) / measured.calls }); // the first warms up
  }
  printRow(name, turns);
}

/**
 * Repeats a preview; returns a function that stops it. Each response has status OK and describes the encoder's error.
 */
function runUntilStopped(server: PlantroomServer, message: (n: number) => Uint8Array): () => Promise<void> {
  const stopping = new AbortController();
  const load = { ...toLoadTarget(server, server.key, PREVIEW), message, concurrency: 1, calls: 1 };
  const running = (async () => {
    while (!stopping.signal.aborted) {
      const { failed } = await runLoad(load);
      if (failed > 0) throw new Error('a hostile preview had no response');
    }
  })();
  running.catch(() => {}); // reported to whoever stops it
  return async () => {
    stopping.abort();
    await running;
  };
}
