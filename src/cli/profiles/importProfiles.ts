import type { Core } from '../../app';
import { nearest } from '../../kernel/nearest';
import { openRepository, type ProfileRepository, type ReadVendor } from '../../profiles';
import { withCore } from '../core';
import { Reported, UsageError } from '../exit';
import type { ConfigFlags } from '../options';
import { note } from '../output';
import { plainText } from '../plainText';
import { Progress } from '../progress';
import { stoppable } from '../server/stopSignals';
import { ImportReport, showReport } from './importReport';

/** What `plantroom profiles import` is given. */
export interface ImportFlags extends ConfigFlags {
  readonly vendor?: readonly string[];
}

/** `plantroom profiles import`. Exit code 1 if nothing could be imported, or if it ended before the last vendor; what was done until then is shown all the same. */
export async function runImport(folder: string, flags: ImportFlags): Promise<void> {
  const repository = openRepository(folder);
  const vendorIds = flags.vendor === undefined ? repository.vendorIds : chosen(repository, flags.vendor);
  const report = await withCore(flags, async (core) => await importAll(core, repository, vendorIds, flags));
  showReport(report, flags);
  if (report.isStopped) note(`plantroom: stopped after ${report.vendors} of ${vendorIds.length} vendors; what is imported stays, and the same command goes on`);
  else if (report.profiles === 0) note('plantroom: nothing could be imported; the warnings say why');
  if (report.failure !== undefined) throw report.failure;
  if (report.isStopped || report.profiles === 0) throw new Reported(1);
}

/** Each once, in the order of the repository. */
function chosen(repository: ProfileRepository, wanted: readonly string[]): readonly string[] {
  const { vendorIds } = repository;
  const missing = wanted.find((name) => repository.findVendor(name) === undefined);
  const ids = new Set(wanted.map((name) => repository.findVendor(name)));
  if (missing === undefined) return vendorIds.filter((id) => ids.has(id));
  const near = nearest(missing, vendorIds);
  throw new UsageError(`there is no vendor ${JSON.stringify(plainText(missing, 80))} in this repository${near === undefined ? '' : `; did you mean ${JSON.stringify(plainText(near, 80))}?`}`);
}

async function importAll(core: Core, repository: ProfileRepository, vendorIds: readonly string[], flags: ImportFlags): Promise<ImportReport> {
  const report = new ImportReport(repository);
  const progress = new Progress(vendorIds.length, flags.json ? { write: () => {} } : process.stderr);
  const stop = stoppable();
  const change = { resource: 'device-profiles', fields: flags.vendor === undefined ? [] : ['vendor'] };
  try {
    await core.audit.changeOfAll('profiles import', change, async (begin) => {
      for (const id of vendorIds) {
        progress.show(plainText(id, 40));
        report.at = id;
        const vendor = await readUnlessStopped(repository, id, stop.signal);
        if (vendor === undefined) return report.stop();
        report.add(vendor, await core.profiles.imports.store(repository.source, vendor, begin));
        progress.step(plainText(id, 40));
      }
    });
    report.at = undefined;
    if (flags.vendor === undefined && !report.isStopped) report.addNotRead(await core.profiles.imports.ofOtherBrands(repository));
  } catch (error) {
    report.fail(error);
  } finally {
    progress.clear();
    stop.remove();
  }
  return report;
}

/** Undefined: somebody wants it to end. */
async function readUnlessStopped(repository: ProfileRepository, id: string, signal: AbortSignal): Promise<ReadVendor | undefined> {
  try {
    return await repository.readVendor(id, signal);
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}
