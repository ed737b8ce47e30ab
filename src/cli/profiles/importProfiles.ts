import type { AdminContext } from '../../server';
import type { Sandbox } from '../../codec';
import { findNearest } from '../../kernel/findNearest';
import { openRepository, type ProfileRepository, type ReadVendor } from '../../profiles';
import { withSandbox } from '../codec/codecRunner';
import { withAdminContext } from '../core';
import { AlreadyReportedError, UsageError } from '../exit';
import type { ConfigFlags } from '../options';
import { note } from '../output';
import { toPlainText } from '../plainText';
import { Progress } from '../progress';
import { abortOnStopSignal } from '../server/stopSignals';
import { findCodecWarnings } from './codecWarnings';
import { ImportReport, showReport } from './importReport';

/** Flags of `plantroom profiles import`. */
export interface ImportFlags extends ConfigFlags {
  readonly vendor?: readonly string[];
}

/**
 * Runs `plantroom profiles import`. The exit code is 1 if nothing was imported or if the import ended before the last
 * vendor. The results up to that point are shown in any case.
 */
export async function runImport(folder: string, flags: ImportFlags): Promise<void> {
  const repository = openRepository(folder);
  const vendorIds = flags.vendor === undefined ? repository.vendorIds : selectVendors(repository, flags.vendor);
  const report = await withSandbox(
    flags,
    { maxWorkers: 1 },
    async (sandbox) =>
      await withAdminContext(flags, async (admin) => await importAll({ admin, sandbox }, repository, vendorIds, flags)),
  );
  showReport(report, flags);
  if (report.isStopped)
    note(
      `plantroom: stopped after ${report.vendors} of ${vendorIds.length} vendors; imported profiles are kept, run the same command again to continue`,
    );
  else if (report.profiles === 0) note('plantroom: nothing was imported; see the warnings');
  if (report.failure !== undefined) throw report.failure;
  if (report.isStopped || report.profiles === 0) throw new AlreadyReportedError(1);
}

/** Returns the ids of the requested vendors without duplicates, in the order of the repository. */
function selectVendors(repository: ProfileRepository, requested: readonly string[]): readonly string[] {
  const { vendorIds } = repository;
  const missing = requested.find((name) => repository.findVendor(name) === undefined);
  const ids = new Set(requested.map((name) => repository.findVendor(name)));
  if (missing === undefined) return vendorIds.filter((id) => ids.has(id));
  const similar = findNearest(missing, vendorIds);
  throw new UsageError(
    `vendor ${JSON.stringify(toPlainText(missing, 80))} not found in this repository${similar === undefined ? '' : `; did you mean ${JSON.stringify(toPlainText(similar, 80))}?`}`,
  );
}

/**
 * Imports the vendors one by one, and returns the report. `begin` of the audit trail is called before the first change.
 * Only a complete import also reports the stored brands that are not in the repository.
 */
async function importAll(
  { admin, sandbox }: { readonly admin: AdminContext; readonly sandbox: Sandbox },
  repository: ProfileRepository,
  vendorIds: readonly string[],
  flags: ImportFlags,
): Promise<ImportReport> {
  const report = new ImportReport(repository);
  const progress = new Progress(vendorIds.length, flags.json ? { write: () => {} } : process.stderr);
  const stop = abortOnStopSignal();
  const change = { resource: 'device-profiles', fields: flags.vendor === undefined ? [] : ['vendor'] };
  try {
    await admin.audit.recordChangeOfAll('profiles import', change, async (begin) => {
      for (const id of vendorIds) {
        progress.show(toPlainText(id, 40));
        report.currentVendor = id;
        const vendor = await readUnlessStopped(repository, id, stop.signal);
        if (vendor === undefined) return report.stop();
        report.add(vendor, await admin.profiles.imports.store(repository.source, vendor, begin));
        report.addWarnings(await findCodecWarnings(sandbox, vendor));
        progress.step(toPlainText(id, 40));
      }
    });
    report.currentVendor = undefined;
    if (flags.vendor === undefined && !report.isStopped)
      report.addSkipped(await admin.profiles.imports.findProfilesOfOtherBrands(repository));
  } catch (error) {
    report.fail(error);
  } finally {
    progress.clear();
    stop.remove();
  }
  return report;
}

/** Reads the profiles of a vendor from the repository. Undefined: the user stopped the import. */
async function readUnlessStopped(
  repository: ProfileRepository,
  id: string,
  signal: AbortSignal,
): Promise<ReadVendor | undefined> {
  try {
    return await repository.readVendor(id, signal);
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}
