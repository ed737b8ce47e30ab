import { status } from '@grpc/grpc-js';
import { JsonClient } from '../call/jsonClient';
import { type Target, targetOf, type TargetFlags } from '../call/target';
import { isServiceError, wireErrorOf, wireErrorText } from '../call/wireError';
import { Reported, UsageError } from '../exit';
import { note, plainJson, showRecord } from '../output';
import { Progress } from '../progress';
import { fileTarget, requireWritable, stdoutTarget } from './exportTarget';
import { ReadingSource } from './readingSource';
import { csv, jsonl, type RowFormat } from './rows';

/** What `plantroom readings export` is given. Times are Unix milliseconds. */
export interface ExportFlags extends TargetFlags {
  readonly from: number;
  readonly to?: number;
  readonly device?: readonly string[];
  readonly sensor?: readonly string[];
  readonly format: 'csv' | 'jsonl';
  readonly output?: string;
}

/** `plantroom readings export`: asks a running server page by page, so that it takes no more memory for more readings. */
export async function runExport(flags: ExportFlags): Promise<void> {
  const { from, to = Date.now(), output } = flags;
  if (from >= to) throw new UsageError('--to must be after --from');
  if (flags.json && output === undefined) throw new UsageError('--json tells how it went on stdout, where the readings go too; give --output');
  if (output !== undefined) await requireWritable(output);
  const target = targetOf(flags);
  try {
    const client = await JsonClient.connect(target);
    const exported = await exportAll(client, { ...flags, to });
    if (output !== undefined) showRecord({ output, ...exported, from: new Date(from).toISOString(), to: new Date(to).toISOString() }, flags);
  } catch (error) {
    throw reported(error, target, flags);
  }
}

async function exportAll(client: JsonClient, { device: deviceIds = [], sensor: sensorIds = [], from, to, format, output }: ExportFlags & { readonly to: number }): Promise<Exported> {
  const end = interruption();
  try {
    const source = await ReadingSource.open({ client, end, onGone: noteGone }, { deviceIds, sensorIds, from, to });
    return await writeAll(source, format === 'csv' ? csv : jsonl, output, end);
  } catch (error) {
    throw end.aborted ? end.reason : error;
  }
}

function noteGone(sensorId: string): void {
  note(`plantroom: sensor ${sensorId} was deleted meanwhile; its readings are left out from there on`);
}

/** A failed call is told as `plantroom call` tells it. */
function reported(error: unknown, { address }: Target, { json }: ExportFlags): unknown {
  if (!isServiceError(error)) return error;
  const wire = wireErrorOf(error);
  note(json ? plainJson(JSON.stringify({ error: wire })) : `plantroom: ${wireErrorText(wire, address)}`);
  return new Reported(error.code === status.INVALID_ARGUMENT ? 2 : 1);
}

interface Exported {
  readonly devices: number;
  readonly sensors: number;
  readonly readings: number;
}

async function writeAll(source: ReadingSource, format: RowFormat, output: string | undefined, end: AbortSignal): Promise<Exported> {
  const { count, devices } = await source.devices();
  const target = output === undefined ? stdoutTarget(end) : await fileTarget(output, 'the readings');
  const progress = new Progress(count, process.stderr);
  const exported = { devices: 0, sensors: 0, readings: 0 };
  try {
    await target.write(format.head);
    for await (const { name, sensors } of devices) {
      const known = new Map(sensors.map((sensor) => [sensor.sensorId, sensor]));
      for await (const page of source.readings(sensors)) {
        end.throwIfAborted();
        await target.write(page.map((reading) => format.row(known.get(String(reading['sensorId'])) as (typeof sensors)[0], reading)).join(''));
        exported.readings += page.length;
        progress.show(`${exported.readings} readings, ${name}`);
      }
      exported.devices += 1;
      exported.sensors += sensors.length;
      progress.step(`${exported.readings} readings, ${name}`);
    }
    await target.finish();
    return exported;
  } catch (error) {
    await target.discard();
    throw error;
  } finally {
    progress.clear();
  }
}

/** Aborted by the first signal to stop, so that no half of a file stays; another one changes nothing. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  const stop = (): void => controller.abort(new Error('stopped before the end; nothing was kept of the file'));
  process.on('SIGINT', stop).on('SIGTERM', stop);
  return controller.signal;
}
