import { findNearest } from '../../kernel/findNearest';
import { CodecRepository, type CodecBrand, type DeviceCodec } from '../../profiles';
import { withAdminContext } from '../core';
import { AlreadyReportedError, UsageError } from '../exit';
import { printJson } from '../output';
import { toPlainText } from '../plainText';
import { parseProfileSource } from '../profileSource';
import { Progress } from '../progress';
import { parseExample } from './example';
import { ExampleRunner, runInParallel, type Outcome } from './exampleRunner';
import { type Job, ProfilesReport, ROLE_NAMES } from './profilesReport';
import { showReport } from './showProfilesReport';
import { withSandbox, type CodecFlags } from './codecRunner';

/** Options of `plantroom codec test --profiles`. */
export interface ProfilesFlags extends CodecFlags {
  /** Vendor ids, case-insensitive; absent: all. */
  readonly vendor?: readonly string[];
  /** One of PROFILE_SOURCES; absent: all. */
  readonly source?: string;
}

// A codec can have one megabyte of scripts and examples.
const BATCH_SIZE = 20;

/**
 * Runs `plantroom codec test --profiles`: every imported codec with the examples of its repository, in parallel. Exit
 * code 1 if one failed or none passed.
 */
export async function runProfilesTest(flags: ProfilesFlags): Promise<void> {
  const { sums, failures } = await withAdminContext(flags, async ({ database }) => {
    const codecs = new CodecRepository(database.db);
    return await createReport(codecs, selectBrands(await codecs.listBrands(), flags), flags);
  });
  if (flags.json) printJson({ ...sums.all, vendors: sums.vendors, failures });
  else showReport(sums, failures);
  if (sums.all.failed > 0 || sums.all.passed === 0) throw new AlreadyReportedError(1);
}

/** Selects the brands of the requested vendors and source. Throws UsageError for an unknown one. */
function selectBrands(brands: readonly CodecBrand[], { vendor, source: requestedSource }: ProfilesFlags): CodecBrand[] {
  const source = parseProfileSource(requestedSource);
  const candidates = brands.filter((brand) => source === undefined || brand.source === source);
  const wantedIds = vendor?.map((name) => findVendorId(name, candidates));
  return candidates.filter(({ brandId }) => !wantedIds || wantedIds.includes(brandId));
}

function findVendorId(name: string, brands: readonly CodecBrand[]): string {
  const ids = brands.map(({ brandId }) => brandId);
  const found = ids.find((id) => id.toLowerCase() === name.toLowerCase());
  if (found !== undefined) return found;
  const near = findNearest(name, ids);
  throw new UsageError(
    `no imported codec of the vendor ${JSON.stringify(toPlainText(name, 80))}${near === undefined ? '' : `; did you mean ${JSON.stringify(near)}?`}`,
  );
}

/** Runs the examples of the selected codecs in parallel, and returns the totals and failures. */
async function createReport(
  codecs: CodecRepository,
  brands: readonly CodecBrand[],
  flags: ProfilesFlags,
): Promise<ReturnType<ProfilesReport['getResult']>> {
  const report = new ProfilesReport();
  const total = brands.reduce((sum, brand) => sum + brand.codecCount, 0);
  const progress = new Progress(total, flags.json ? { write: () => {} } : process.stderr);
  // As many workers as configured.
  await withSandbox(flags, { maxWorkers: Infinity }, async (sandbox, workers) => {
    const runner = new ExampleRunner(sandbox);
    await runInParallel(
      listJobs(listSelectedCodecs(codecs, brands, flags), report, progress),
      workers,
      async (job, index) => report.addResult(index, job, await runJob(job, runner)),
    );
  });
  progress.clear();
  return report.getResult();
}

/**
 * Yields a job for each example of the codecs. Registers each codec in the report before its jobs, and advances the
 * progress after them.
 */
async function* listJobs(
  codecs: AsyncIterable<DeviceCodec>,
  report: ProfilesReport,
  progress: Progress,
): AsyncGenerator<Job> {
  for await (const codec of codecs) {
    const jobs = codec.examples.flatMap(({ role, file, items }) =>
      items.map((item, index) => ({ codec, role, file, example: parseExample(item, index, file, role) })),
    );
    report.addCodec(codec, jobs.length);
    yield* jobs;
    progress.step(toPlainText(codec.id));
  }
}

/** Yields the codecs of these brands and of the requested source. Only one batch of codecs is in memory. */
async function* listSelectedCodecs(
  codecs: CodecRepository,
  brands: readonly CodecBrand[],
  { vendor, source }: ProfilesFlags,
): AsyncGenerator<DeviceCodec> {
  // Brands are not indexed: without a selection one scan of the table is enough.
  const brandIds = vendor ? new Set(brands.map(({ brandId }) => brandId)) : [undefined];
  for (const brandId of brandIds) {
    for await (const codec of listCodecs(codecs, brandId))
      if (source === undefined || codec.source === source) yield codec;
  }
}

/** Yields all codecs, or those of a brand, batch by batch. */
async function* listCodecs(codecs: CodecRepository, brandId: string | undefined): AsyncGenerator<DeviceCodec> {
  let lastId = '';
  for (;;) {
    const page = await codecs.list(lastId, BATCH_SIZE, brandId);
    yield* page;
    const last = page.at(-1);
    if (!last || page.length < BATCH_SIZE) return;
    lastId = last.id;
  }
}

/** Runs one example with the script of its codec for its role. */
async function runJob({ codec, role, example }: Job, runner: ExampleRunner): Promise<Outcome> {
  const script = codec.scripts[role];
  if (!script) return { result: 'failed', why: `the codec has no ${ROLE_NAMES[role]}`, timeMs: null };
  return await runner.run(`${codec.id} ${role}`, script.text, example);
}
