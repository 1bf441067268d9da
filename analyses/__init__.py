"""Questions asked of a sweep, each answered by a table, a figure and a caption; and the page of them all."""

# No module has the name of a function offered here: importing the module would hide the function.
from typing import TYPE_CHECKING

from workbench._lazy import lazy_exports

if TYPE_CHECKING:
    from analyses.association import Trials, association_bias, embed_triplets, run_trials
    from analyses.association_clusters import preference_and_clusters, published_preference_and_clusters
    from analyses.averaging import AveragingGains, average_languages, average_tower
    from analyses.averaging_figures import averaging_figure, averaging_matrix
    from analyses.base import Analysis
    from analyses.baselines import baseline
    from analyses.bias import bias_association, bias_prevalence
    from analyses.browser import BrowserData, patch_browser
    from analyses.ceiling import patch_ceiling
    from analyses.checkpoint import checkpoint_table
    from analyses.comparison import compare_published, compare_run
    from analyses.erasure import ErasureAudit, audit_erasure, audit_tower
    from analyses.erasure_depths import language_by_depth
    from analyses.erasure_figures import erasure_attacks, erasure_changes
    from analyses.erasure_ranks import erasure_by_rank
    from analyses.erasure_run import ErasureStudy, erasure_analyses, measure_erasure
    from analyses.erasure_verdict import ErasureThresholds, ErasureVerdict, judge_erasure
    from analyses.export import export_run
    from analyses.geometry import cka_curves, cka_gap, cka_matrix
    from analyses.geometry_divergence import divergence_curves, prevalence_scatter, residuals_by_language
    from analyses.geometry_output import centroid_cosines, jaccard_curves, modality_gap_by_language, subspace_angles
    from analyses.geometry_run import Geometry, compare_geometry, four_measures, geometry_analyses, measure_geometry
    from analyses.geometry_sensitivity import lift_scatter, sensitivity_by_language
    from analyses.geometry_silhouette import silhouette_curves
    from analyses.language_probe import classifier_accuracies, confusion_figure
    from analyses.maps import embedding_map
    from analyses.mixed_pool import MixedRanking, mixed_ranking
    from analyses.prevalence import accuracy_scatter, prevalence_bias
    from analyses.prevalence_lists import language_frequency, language_shares, rank_frequency, ranked_list
    from analyses.published_values import load_published
    from analyses.report import write_report
    from analyses.rescue import rescue_curves, rescue_figure, rescue_grid

__all__ = [
    "Analysis",
    "AveragingGains",
    "BrowserData",
    "ErasureAudit",
    "ErasureStudy",
    "ErasureThresholds",
    "ErasureVerdict",
    "Geometry",
    "MixedRanking",
    "Trials",
    "accuracy_scatter",
    "association_bias",
    "audit_erasure",
    "audit_tower",
    "average_languages",
    "average_tower",
    "averaging_figure",
    "averaging_matrix",
    "baseline",
    "bias_association",
    "bias_prevalence",
    "centroid_cosines",
    "checkpoint_table",
    "cka_curves",
    "cka_gap",
    "cka_matrix",
    "classifier_accuracies",
    "compare_geometry",
    "compare_published",
    "compare_run",
    "confusion_figure",
    "divergence_curves",
    "embed_triplets",
    "embedding_map",
    "erasure_analyses",
    "erasure_attacks",
    "erasure_by_rank",
    "erasure_changes",
    "export_run",
    "four_measures",
    "geometry_analyses",
    "jaccard_curves",
    "judge_erasure",
    "language_by_depth",
    "language_frequency",
    "language_shares",
    "lift_scatter",
    "load_published",
    "measure_erasure",
    "measure_geometry",
    "mixed_ranking",
    "modality_gap_by_language",
    "patch_browser",
    "patch_ceiling",
    "preference_and_clusters",
    "prevalence_bias",
    "prevalence_scatter",
    "published_preference_and_clusters",
    "rank_frequency",
    "ranked_list",
    "rescue_curves",
    "rescue_figure",
    "rescue_grid",
    "residuals_by_language",
    "run_trials",
    "sensitivity_by_language",
    "silhouette_curves",
    "subspace_angles",
    "write_report",
]
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Analysis": "analyses.base",
        "AveragingGains": "analyses.averaging",
        "BrowserData": "analyses.browser",
        "ErasureAudit": "analyses.erasure",
        "ErasureStudy": "analyses.erasure_run",
        "ErasureThresholds": "analyses.erasure_verdict",
        "ErasureVerdict": "analyses.erasure_verdict",
        "Geometry": "analyses.geometry_run",
        "MixedRanking": "analyses.mixed_pool",
        "Trials": "analyses.association",
        "accuracy_scatter": "analyses.prevalence",
        "association_bias": "analyses.association",
        "audit_erasure": "analyses.erasure",
        "audit_tower": "analyses.erasure",
        "average_languages": "analyses.averaging",
        "average_tower": "analyses.averaging",
        "averaging_figure": "analyses.averaging_figures",
        "averaging_matrix": "analyses.averaging_figures",
        "baseline": "analyses.baselines",
        "bias_association": "analyses.bias",
        "bias_prevalence": "analyses.bias",
        "centroid_cosines": "analyses.geometry_output",
        "checkpoint_table": "analyses.checkpoint",
        "cka_curves": "analyses.geometry",
        "cka_gap": "analyses.geometry",
        "cka_matrix": "analyses.geometry",
        "classifier_accuracies": "analyses.language_probe",
        "compare_geometry": "analyses.geometry_run",
        "compare_published": "analyses.comparison",
        "compare_run": "analyses.comparison",
        "confusion_figure": "analyses.language_probe",
        "divergence_curves": "analyses.geometry_divergence",
        "embed_triplets": "analyses.association",
        "embedding_map": "analyses.maps",
        "erasure_analyses": "analyses.erasure_run",
        "erasure_attacks": "analyses.erasure_figures",
        "erasure_by_rank": "analyses.erasure_ranks",
        "erasure_changes": "analyses.erasure_figures",
        "export_run": "analyses.export",
        "four_measures": "analyses.geometry_run",
        "geometry_analyses": "analyses.geometry_run",
        "jaccard_curves": "analyses.geometry_output",
        "judge_erasure": "analyses.erasure_verdict",
        "language_by_depth": "analyses.erasure_depths",
        "language_frequency": "analyses.prevalence_lists",
        "language_shares": "analyses.prevalence_lists",
        "lift_scatter": "analyses.geometry_sensitivity",
        "load_published": "analyses.published_values",
        "measure_erasure": "analyses.erasure_run",
        "measure_geometry": "analyses.geometry_run",
        "mixed_ranking": "analyses.mixed_pool",
        "modality_gap_by_language": "analyses.geometry_output",
        "patch_browser": "analyses.browser",
        "patch_ceiling": "analyses.ceiling",
        "preference_and_clusters": "analyses.association_clusters",
        "prevalence_bias": "analyses.prevalence",
        "prevalence_scatter": "analyses.geometry_divergence",
        "published_preference_and_clusters": "analyses.association_clusters",
        "rank_frequency": "analyses.prevalence_lists",
        "ranked_list": "analyses.prevalence_lists",
        "rescue_curves": "analyses.rescue",
        "rescue_figure": "analyses.rescue",
        "rescue_grid": "analyses.rescue",
        "residuals_by_language": "analyses.geometry_divergence",
        "run_trials": "analyses.association",
        "sensitivity_by_language": "analyses.geometry_sensitivity",
        "silhouette_curves": "analyses.geometry_silhouette",
        "subspace_angles": "analyses.geometry_output",
        "write_report": "analyses.report",
    },
)
