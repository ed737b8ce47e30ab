import fc from 'fast-check';
import { engines } from '../support/engines';
import { DASHBOARDS, DashboardFixture, WIDGETS, type DashboardJson, type WidgetJson } from './dashboardFixture';

const RUNS = 15;
const MAX_EDITS = 14;

/** One edit of one editor. `target` selects a widget of what the editor last read. */
interface Edit {
  readonly editor: 0 | 1;
  readonly kind: 'reload' | 'save' | 'create' | 'update' | 'delete';
  readonly target: number;
}

const EDITS = fc.array(
  fc.record<Edit>({
    editor: fc.constantFrom(0, 1),
    kind: fc.constantFrom('reload', 'save', 'create', 'update', 'delete'),
    target: fc.nat(9),
  }),
  { minLength: 2, maxLength: MAX_EDITS },
);

/** What an accepted edit promises: the title that a widget then has, or that it is deleted. */
type Titles = Map<string, string>;

describe.each(engines())('two editors on $name', (engine) => {
  let fixture: DashboardFixture;
  let count = 0;
  beforeAll(async () => {
    fixture = await DashboardFixture.start(engine);
  });
  afterAll(async () => await fixture.stop());

  const nextTitle = (): string => `Edit ${(count += 1)}`;

  /** Both editors, who know of the dashboard only what they last read. */
  class Editors {
    /** What the accepted edits say that the dashboard contains. */
    private readonly titles: Titles = new Map();
    private readonly seen: DashboardJson[];

    constructor(private readonly dashboard: DashboardJson) {
      this.seen = [dashboard, dashboard];
    }

    async apply({ editor, kind, target }: Edit): Promise<void> {
      const { id, etag, content } = this.seen[editor] as DashboardJson;
      const widget = content.widgets[target % Math.max(1, content.widgets.length)];
      if (kind === 'reload') this.seen[editor] = await fixture.owner.getDashboard(id);
      else if (kind === 'save') await this.save(editor, id, etag, content.widgets.toSpliced(target, 1));
      else if (kind === 'create') await this.create(id);
      else if (widget && kind === 'update') await this.update(id, widget);
      else if (widget) await this.delete(id, widget);
    }

    async check(): Promise<void> {
      const { content } = await fixture.owner.getDashboard(this.dashboard.id);
      expect(new Map(content.widgets.map((widget) => [widget.id, widget.title]))).toEqual(this.titles);
      expect(content.layout.map(({ widgetId }) => widgetId).toSorted()).toEqual([...this.titles.keys()].toSorted());
    }

    /** Saves everything that the editor sees with one more widget. It is refused if anything changed meanwhile. */
    private async save(editor: number, id: string, etag: string, widgets: readonly WidgetJson[]): Promise<void> {
      const current = await fixture.owner.getDashboard(id);
      const content = { widgets: [...widgets, { kind: 'clock', title: nextTitle() }] };
      const answer = await fixture.owner.try(`${DASHBOARDS}/SetDashboardContent`, { id, etag, content });
      if (current.etag !== etag) return this.expectConflict(answer);
      expect(answer.status).toBe(200);
      const saved = answer.json as unknown as DashboardJson;
      this.seen[editor] = saved;
      this.titles.clear();
      saved.content.widgets.forEach((widget) => this.titles.set(widget.id, widget.title));
      expect(saved.content.widgets.map(({ title }) => title).toSorted()).toEqual(
        content.widgets.map(({ title }) => title).toSorted(),
      );
    }

    private async create(dashboardId: string): Promise<void> {
      const request = { dashboardId, kind: 'clock', title: nextTitle() };
      const { id, title } = await fixture.owner.call<WidgetJson>(`${WIDGETS}/CreateWidget`, request);
      this.titles.set(id, title);
    }

    /** Changes a widget as the editor saw it. It is refused only if that widget changed meanwhile. */
    private async update(dashboardId: string, { id: widgetId, etag, title: before }: WidgetJson): Promise<void> {
      const request = { dashboardId, widgetId, etag, title: nextTitle() };
      const answer = await fixture.owner.try(`${WIDGETS}/UpdateWidget`, request);
      if (this.titles.get(widgetId) !== before) return this.expectConflict(answer);
      expect(answer.status).toBe(200);
      this.titles.set(widgetId, request.title);
    }

    private async delete(dashboardId: string, { id: widgetId, etag, title: before }: WidgetJson): Promise<void> {
      const answer = await fixture.owner.try(`${WIDGETS}/DeleteWidget`, { dashboardId, widgetId, etag });
      if (this.titles.get(widgetId) !== before) return this.expectConflict(answer);
      expect(answer.status).toBe(200);
      this.titles.delete(widgetId);
    }

    private expectConflict({ status, json }: { status: number; json: object }): void {
      expect([412, 404]).toContain(status);
      expect((json as { error: { code: string } }).error.code).toMatch(/^version_conflict$|^widget_not_found$/);
    }
  }

  test('lose no accepted edit, and learn of every refused one', async () => {
    await fc.assert(
      fc.asyncProperty(EDITS, async (edits) => {
        const editors = new Editors(await fixture.owner.createDashboard());
        for (const edit of edits) await editors.apply(edit);
        await editors.check();
      }),
      { numRuns: RUNS },
    );
  });

  test('who save at the same time: one succeeds, the other learns the newer etag', async () => {
    const { owner } = fixture;
    const { id } = await owner.createDashboard();
    const save = async () =>
      await owner.try(`${DASHBOARDS}/SetDashboardContent`, {
        id,
        etag: '"1"',
        content: { widgets: [{ kind: 'clock', title: nextTitle() }] },
      });
    const answers = await Promise.all(Array.from({ length: 8 }, save));
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      200, 412, 412, 412, 412, 412, 412, 412,
    ]);
    for (const { json } of answers.filter(({ status }) => status === 412))
      expect(json['error']).toMatchObject({ details: [{ metadata: { etag: '"2"' } }] });
    const saved = answers.find(({ status }) => status === 200)?.json;
    expect(await owner.getDashboard(id)).toEqual(saved);
  });

  test('who change different widgets at the same time do not conflict', async () => {
    const { owner } = fixture;
    const widgets = Array.from({ length: 10 }, () => ({ kind: 'clock' }));
    const dashboard = await owner.createDashboard({ content: { widgets } });
    const titles = await Promise.all(
      dashboard.content.widgets.map(async ({ id: widgetId, etag }) => {
        const request = { dashboardId: dashboard.id, widgetId, etag, title: nextTitle() };
        return (await owner.call<WidgetJson>(`${WIDGETS}/UpdateWidget`, request)).title;
      }),
    );
    const { content, revision } = await owner.getDashboard(dashboard.id);
    expect(content.widgets.map(({ title }) => title)).toEqual(titles);
    expect(revision).toBe(11);
  });
});
