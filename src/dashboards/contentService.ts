import { notFound, throwIfAny } from '../kernel/errors';
import { checkEtag } from '../kernel/etags';
import { applyContent, isUnchanged } from './content';
import { checkReferences, listReferences, listWidgetReferences } from './contentReferences';
import { assertWithinLimits, checkContent, checkWidget } from './contentRules';
import type { DashboardContent, DashboardWithContent, Viewer, Widget, WidgetInput } from './dashboard';
import { findViewable, loadViewable, lockEditable, type LoadedDashboard } from './dashboardAccess';
import type { DashboardRepositories } from './dashboardRepositories';
import { nextRevision, type DashboardOptions } from './dashboardService';
import type { Revision } from './revisionRepository';
import { writeContent } from './writeContent';

/** The new content of a dashboard, and how it is stored. */
interface ContentEdit {
  readonly wanted: DashboardContent<WidgetInput>;
  /** The comment of the revision. */
  readonly message: string;
  /** The field of the request that violations of the layout name. */
  readonly field: string;
  /** Whether it restores a revision: the widgets keep their ids, and the edit is stored even if it changes nothing. */
  readonly isRestore?: boolean;
}

/** Changes of a widget; undefined leaves a field unchanged. */
export interface WidgetChange {
  readonly title: string | undefined;
  readonly options: WidgetInput['options'] | undefined;
  readonly series: WidgetInput['series'] | undefined;
}

/** A widget of a dashboard. */
interface WidgetTarget {
  readonly dashboardId: string;
  readonly widgetId: string;
}

/** Reads and changes the content of dashboards. Each change is a new revision. */
export class ContentService {
  constructor(private readonly options: DashboardOptions) {}

  /**
   * Replaces the content. The same content again is no new revision. Throws `dashboard_not_found`,
   * `dashboard_not_editable`, `version_conflict`, `validation_failed`, and the limits of the content.
   */
  async set(
    viewer: Viewer,
    id: string,
    wanted: DashboardContent<WidgetInput>,
    { etag, message }: { readonly etag: string; readonly message: string },
  ): Promise<DashboardWithContent> {
    assertWithinLimits(wanted);
    return await this.edit(viewer, id, async ({ dashboard, content }, repos) => {
      checkEtag('dashboard', dashboard.revision, etag);
      const kindById = new Map(content.widgets.map((widget) => [widget.id, widget.kind]));
      throwIfAny([
        ...checkContent(wanted, 'content', (widget) => kindById.get(widget.id) === widget.kind),
        ...(await checkReferences(repos, viewer.organizationId, listReferences(wanted, 'content'), content)),
      ]);
      return { wanted, message, field: 'content.layout' };
    });
  }

  /** Returns the stored revisions, newest first. Throws `dashboard_not_found`. */
  async listRevisions(viewer: Viewer, id: string): Promise<Revision[]> {
    const { repos } = this.options.work;
    await findViewable(repos, viewer, id);
    return await repos.revisions.list(viewer.organizationId, id);
  }

  /**
   * Restores the content of a revision as a new revision. Throws `dashboard_not_found`, `dashboard_not_editable`,
   * `version_conflict`, `revision_not_found`.
   */
  async restore(viewer: Viewer, id: string, revision: number, etag: string | undefined): Promise<DashboardWithContent> {
    return await this.edit(viewer, id, async ({ dashboard }, repos) => {
      checkEtag('dashboard', dashboard.revision, etag);
      const wanted = await repos.revisions.find(viewer.organizationId, id, revision);
      if (!wanted) throw notFound('revision', String(revision));
      return { wanted, message: `Restored revision ${revision}`, field: 'revision', isRestore: true };
    });
  }

  /** Returns the widgets of a dashboard in the order of its layout. Throws `dashboard_not_found`. */
  async listWidgets(viewer: Viewer, dashboardId: string): Promise<Widget[]> {
    const { content } = await loadViewable(this.options.work.repos, viewer, dashboardId);
    return [...content.widgets];
  }

  /** Returns one widget. Throws `dashboard_not_found`, `widget_not_found`. */
  async getWidget(viewer: Viewer, { dashboardId, widgetId }: WidgetTarget): Promise<Widget> {
    const { content } = await loadViewable(this.options.work.repos, viewer, dashboardId);
    return findWidget(content, widgetId);
  }

  /** Adds a widget below all others. Throws the errors of `set` except `version_conflict`. */
  async createWidget(viewer: Viewer, dashboardId: string, fields: Omit<WidgetInput, 'id'>): Promise<Widget> {
    const widget: WidgetInput = { ...fields, id: '' };
    const { content, revision } = await this.edit(viewer, dashboardId, async (loaded, repos) => {
      await this.assertWidgetValid(repos, viewer, widget, loaded);
      const wanted = { ...loaded.content, widgets: [...loaded.content.widgets, widget] };
      const message = `Added the widget ${JSON.stringify(widget.title || widget.kind)}`;
      return { wanted, message, field: 'dashboardId' };
    });
    // The other widgets were last changed in an earlier revision.
    return content.widgets.find((created) => created.revision === revision) as Widget;
  }

  /**
   * Changes a widget; without any change, it stays unchanged. Throws the errors of `set`, and `widget_not_found`. The
   * etag is that of the widget.
   */
  async updateWidget(
    viewer: Viewer,
    { dashboardId, widgetId }: WidgetTarget,
    change: WidgetChange,
    etag: string | undefined,
  ): Promise<Widget> {
    const { content } = await this.edit(viewer, dashboardId, async (loaded, repos) => {
      const current = findWidget(loaded.content, widgetId);
      checkEtag('widget', current.revision, etag);
      const widget: WidgetInput = {
        ...current,
        title: change.title ?? current.title,
        options: change.options ?? current.options,
        series: change.series ?? current.series,
      };
      await this.assertWidgetValid(repos, viewer, widget, loaded);
      const widgets = loaded.content.widgets.map((other) => (other === current ? widget : other));
      return {
        wanted: { ...loaded.content, widgets },
        message: `Changed the widget ${JSON.stringify(widget.title || widget.kind)}`,
        field: 'dashboardId',
      };
    });
    return findWidget(content, widgetId);
  }

  /**
   * Deletes a widget. Throws `dashboard_not_found`, `dashboard_not_editable`, `widget_not_found`, `version_conflict`.
   * The etag is that of the widget.
   */
  async deleteWidget(viewer: Viewer, { dashboardId, widgetId }: WidgetTarget, etag: string | undefined): Promise<void> {
    await this.edit(viewer, dashboardId, async ({ content }) => {
      const current = findWidget(content, widgetId);
      checkEtag('widget', current.revision, etag);
      const wanted = {
        ...content,
        widgets: content.widgets.filter((other) => other !== current),
        layout: content.layout.filter((place) => place.widgetId !== widgetId),
      };
      const message = `Deleted the widget ${JSON.stringify(current.title || current.kind)}`;
      return { wanted, message, field: 'dashboardId' };
    });
  }

  /** Applies an edit to the locked dashboard in a transaction, as a new revision unless it changes nothing. */
  private async edit(
    viewer: Viewer,
    id: string,
    makeEdit: (loaded: LoadedDashboard, repos: DashboardRepositories) => Promise<ContentEdit>,
  ): Promise<DashboardWithContent> {
    const { work, clock, feed } = this.options;
    return await work.transaction(async (repos, db) => {
      const loaded = await lockEditable(repos, viewer, id);
      const { wanted, message, field, isRestore = false } = await makeEdit(loaded, repos);
      const dashboard = { ...loaded.dashboard, ...nextRevision(loaded.dashboard, viewer, clock.now()) };
      const applied = applyContent(loaded.content, wanted, { dashboard, field, keepsIds: isRestore });
      if (!isRestore && isUnchanged(loaded.content, applied)) return { ...loaded.dashboard, content: loaded.content };
      return await writeContent({ repos, db, feed }, { dashboard, isNew: false, applied, message });
    });
  }

  /** Checks a new or changed widget and the limits of its dashboard. */
  private async assertWidgetValid(
    repos: DashboardRepositories,
    { organizationId }: Viewer,
    widget: WidgetInput,
    { content }: LoadedDashboard,
  ): Promise<void> {
    const others = content.widgets.filter(({ id }) => id !== widget.id);
    assertWithinLimits({ ...content, widgets: [...others, widget] });
    throwIfAny([
      ...checkWidget(widget, content.variables, '', () => widget.id !== ''),
      ...(await checkReferences(repos, organizationId, listWidgetReferences(widget, ''), content)),
    ]);
  }
}

/** Throws `widget_not_found`. */
function findWidget({ widgets }: DashboardContent<Widget>, id: string): Widget {
  const widget = widgets.find((candidate) => candidate.id === id);
  if (!widget) throw notFound('widget', id);
  return widget;
}
