import { nearest } from '../../kernel/nearest';
import { CodecRepository, type CodecBrand, type CodecRole, type DeviceCodec } from '../../profiles';
import { withCore } from '../core';
import { Reported, UsageError } from '../exit';
import { sayJson } from '../output';
import { plainText } from '../plainText';
import { profileSource } from '../profileSource';
import { Progress } from '../progress';
import { exampleOf, type Example } from './example';
import { ExampleRunner, inParallel, type Outcome } from './exampleRunner';
import { ProfilesReport, ROLE_WORDS } from './profilesReport';
import { showReport } from './showProfiles';
import { withSandboxOf, type CodecFlags } from './workbench';

/** What `plantroom codec test --profiles` is given. */
export interface ProfilesFlags extends CodecFlags {
  /** Ids of brands, in any case; absent: all. */
  readonly vendor?: readonly string[];
  /** One of PROFILE_SOURCES; absent: both. */
  readonly source?: string;
}

/** An example to run. */
interface Job {
  readonly codec: DeviceCodec;
  readonly role: CodecRole;
  readonly file: string;
  readonly example: Example;
}

// A codec may hold a megabyte of scripts and examples.
const PORTION = 20;

/** `plantroom codec test --profiles`: every imported codec with the examples that its repository gives, in parallel. Exit code 1 if one failed or none was run. */
export async function runProfilesTest(flags: ProfilesFlags): Promise<void> {
  const { sums, failures } = await withCore(flags, async ({ database }) => {
    const codecs = new CodecRepository(database.db);
    return await reportOf(codecs, chosenOf(await codecs.listBrands(), flags), flags);
  });
  if (flags.json) sayJson({ ...sums.all, vendors: sums.vendors, failures });
  else showReport(sums, failures);
  if (sums.all.failed > 0 || sums.all.passed === 0) throw new Reported(1);
}

/** Those that were asked for. Throws UsageError for one that is not there. */
function chosenOf(brands: readonly CodecBrand[], { vendor, source: given }: ProfilesFlags): CodecBrand[] {
  const source = profileSource(given);
  const ofSource = brands.filter((brand) => source === undefined || brand.source === source);
  const wanted = vendor?.map((name) => knownVendor(name, ofSource));
  return ofSource.filter(({ brandId }) => !wanted || wanted.includes(brandId));
}

function knownVendor(name: string, brands: readonly CodecBrand[]): string {
  const ids = brands.map(({ brandId }) => brandId);
  const found = ids.find((id) => id.toLowerCase() === name.toLowerCase());
  if (found !== undefined) return found;
  const near = nearest(name, ids);
  throw new UsageError(`no codec of the vendor ${JSON.stringify(plainText(name, 80))} was imported${near === undefined ? '' : `; did you mean ${JSON.stringify(near)}?`}`);
}

async function reportOf(codecs: CodecRepository, brands: readonly CodecBrand[], flags: ProfilesFlags): Promise<ReturnType<ProfilesReport['result']>> {
  const report = new ProfilesReport();
  const total = brands.reduce((sum, brand) => sum + brand.codecs, 0);
  const progress = new Progress(total, flags.json ? { write: () => {} } : process.stderr);
  await withSandboxOf(flags, Infinity, async (sandbox, workers) => {
    const runner = new ExampleRunner(sandbox);
    await inParallel(jobsOf(chosenCodecs(codecs, brands, flags), report, progress), workers, async (job, at) => report.add(at, job, await outcomeOf(job, runner)));
  });
  progress.clear();
  return report.result();
}

/** The examples of all codecs that were asked for; only some codecs are in memory at a time. */
async function* jobsOf(codecs: AsyncIterable<DeviceCodec>, report: ProfilesReport, progress: Progress): AsyncGenerator<Job> {
  for await (const codec of codecs) {
    const jobs = codec.examples.flatMap(({ role, file, items }) => items.map((item, at) => ({ codec, role, file, example: exampleOf(item, at, file, role) })));
    report.begin(codec, jobs.length);
    yield* jobs;
    progress.step(plainText(codec.id));
  }
}

async function* chosenCodecs(codecs: CodecRepository, brands: readonly CodecBrand[], { vendor, source }: ProfilesFlags): AsyncGenerator<DeviceCodec> {
  // A brand is not found by an index: without a choice of brands one walk through the table does.
  const walks = vendor ? new Set(brands.map(({ brandId }) => brandId)) : [undefined];
  for (const brandId of walks) {
    for await (const codec of walk(codecs, brandId)) if (source === undefined || codec.source === source) yield codec;
  }
}

async function* walk(codecs: CodecRepository, brandId: string | undefined): AsyncGenerator<DeviceCodec> {
  let after = '';
  for (;;) {
    const portion = await codecs.list(after, PORTION, brandId);
    yield* portion;
    const last = portion.at(-1);
    if (!last || portion.length < PORTION) return;
    after = last.id;
  }
}

async function outcomeOf({ codec, role, example }: Job, runner: ExampleRunner): Promise<Outcome> {
  const script = codec.scripts[role];
  if (!script) return { result: 'failed', why: `the codec has no ${ROLE_WORDS[role]}`, timeMs: null };
  return await runner.run(`${codec.id} ${role}`, script.text, example);
}
