import { JsonClient } from '../call/jsonClient';
import { getTarget, type TargetFlags } from '../call/target';
import { reportCallError } from '../call/wireError';
import { UsageError } from '../exit';
import { note, showRecord } from '../output';
import { Progress } from '../progress';
import { openFileTarget, assertWritable, createStdoutTarget } from './exportTarget';
import { ReadingSource } from './readingSource';
import { csv, jsonl, type RowFormat } from './rows';

/** The options of `plantroom readings export`. Times are Unix milliseconds. */
export interface ExportFlags extends TargetFlags {
  readonly from: number;
  readonly to?: number;
  readonly device?: readonly string[];
  readonly sensor?: readonly string[];
  readonly format: 'csv' | 'jsonl';
  readonly output?: string;
}

/**
 * Runs `plantroom readings export`. Reads page by page from a running server, so memory use does not grow with the
 * export.
 */
export async function runExport(flags: ExportFlags): Promise<void> {
  const { from, to = Date.now(), output } = flags;
  if (from >= to) throw new UsageError('--to must be after --from');
  if (flags.json && output === undefined)
    throw new UsageError('--json prints a summary to stdout, where the readings are also written: add --output FILE');
  if (output !== undefined) await assertWritable(output);
  const target = getTarget(flags);
  try {
    const client = new JsonClient(target);
    const summary = await exportAll(client, { ...flags, to });
    if (output !== undefined)
      showRecord({ output, ...summary, from: new Date(from).toISOString(), to: new Date(to).toISOString() }, flags);
  } catch (error) {
    throw reportCallError(error, { address: target.address, isJson: flags.json === true });
  }
}

/** Exports the readings. If the user interrupts it, throws the error that says so, whatever failed because of that. */
async function exportAll(
  client: JsonClient,
  { device: deviceIds = [], sensor: sensorIds = [], from, to, format, output }: ExportFlags & { readonly to: number },
): Promise<ExportSummary> {
  const signal = abortOnInterrupt();
  try {
    const source = await ReadingSource.open(
      { client, signal, onSensorDeleted: reportDeletedSensor },
      { deviceIds, sensorIds, from, to },
    );
    return await writeAll(source, format === 'csv' ? csv : jsonl, output, signal);
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  }
}

function reportDeletedSensor(sensorId: string): void {
  note(`plantroom: sensor ${sensorId} was deleted during the export; its remaining readings are missing`);
}

/** The numbers of exported items. */
interface ExportSummary {
  readonly devices: number;
  readonly sensors: number;
  readonly readings: number;
}

/** Writes the readings device by device. Discards what was written if the export fails. */
async function writeAll(
  source: ReadingSource,
  format: RowFormat,
  output: string | undefined,
  signal: AbortSignal,
): Promise<ExportSummary> {
  const { count, devices } = await source.getDevices();
  const target = output === undefined ? createStdoutTarget(signal) : await openFileTarget(output, 'the readings');
  const progress = new Progress(count, process.stderr);
  const summary = { devices: 0, sensors: 0, readings: 0 };
  try {
    await target.write(format.header);
    for await (const { name, sensors } of devices) {
      const sensorById = new Map(sensors.map((sensor) => [sensor.sensorId, sensor]));
      for await (const page of source.readReadings(sensors)) {
        signal.throwIfAborted();
        await target.write(
          page
            .map((reading) =>
              format.formatRow(sensorById.get(String(reading['sensorId'])) as (typeof sensors)[0], reading),
            )
            .join(''),
        );
        summary.readings += page.length;
        progress.show(`${summary.readings} readings, ${name}`);
      }
      summary.devices += 1;
      summary.sensors += sensors.length;
      progress.step(`${summary.readings} readings, ${name}`);
    }
    await target.finish();
    return summary;
  } catch (error) {
    await target.discard();
    throw error;
  } finally {
    progress.clear();
  }
}

/** Returns a signal that aborts on SIGINT or SIGTERM, so that no partial file is left. Further signals are ignored. */
function abortOnInterrupt(): AbortSignal {
  const controller = new AbortController();
  const stop = (): void => controller.abort(new Error('the export was interrupted; no file was written'));
  process.on('SIGINT', stop).on('SIGTERM', stop);
  return controller.signal;
}
